// SPDX-License-Identifier: Apache-2.0
// Where the resident values of a run lie: the first part of its block, before the arena.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backend/backend.h"
#include "graph/graph.h"

namespace snug::runtime {

/// Where each resident value lives, by name; shared by all programs of a run.
class ResidentLayout {
 public:
  struct Entry {
    TensorType type;
    ValueKind kind = ValueKind::state;
    int64_t offset = 0;
    int64_t bytes = 0;  // not rounded
    [[nodiscard]] ByteRange range() const { return {offset, offset + bytes}; }
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

}  // namespace snug::runtime
