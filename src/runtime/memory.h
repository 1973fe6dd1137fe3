// SPDX-License-Identifier: Apache-2.0
// The one block of memory of a run: resident values first, then the arena. Mapped once (or given by
// the caller), touched before the first step so that the resident set does not grow later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "backend/backend.h"
#include "base/mapped_block.h"
#include "graph/graph.h"

namespace snug {

/// Where each resident value lives, by name; shared by all programs of a run.
class ResidentLayout {
 public:
  struct Entry {
    TensorType type;
    ValueKind kind = ValueKind::state;
    int64_t offset = 0;
    int64_t bytes = 0;  // not rounded
  };

  /// Adds the resident values of a graph that are not there yet. An input that programs feed in
  /// several sizes (length buckets) shares one place of the largest size; any other value must
  /// agree in type.
  void add(const Graph& graph, const Backend& backend);
  [[nodiscard]] const Entry& at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return entries_.count(name) != 0; }
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Gives every value its offset, in order of name; call after the last add. Returns the total, a
  /// multiple of a page.
  int64_t place(int64_t alignment);
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }

 private:
  std::map<std::string, Entry> entries_;
  int64_t total_bytes_ = 0;
};

class Memory {
 public:
  /// Maps `bytes`, all zero; throws Error{out_of_budget} when the system refuses.
  explicit Memory(int64_t bytes);
  /// Uses the caller's memory; throws Error{out_of_budget} when it is too small or not aligned to a
  /// page.
  Memory(std::span<std::byte> callers, int64_t bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() = default;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// Writes zeros to every page.
  void touch();

 private:
  MappedBlock mapped_;  // empty: the caller's
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace snug
