// SPDX-License-Identifier: Apache-2.0
// Tables of FlatBuffers, which Arrow's metadata is made of, in bytes that nobody vouches for: every
// access is checked, and what lies outside is Error{bad_data}. Copies nothing but texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace snug::io {

class FlatTable {
 public:
  /// The table that the bytes begin with; they and the path (of errors) have to outlive it.
  [[nodiscard]] static FlatTable root(std::span<const std::byte> bytes, const std::string& path);

  /// Fields by their place in the schema. A number that is not there has its default.
  template <class T>
  [[nodiscard]] T number(size_t field, T default_value) const {
    const std::optional<size_t> at = place_of(field, sizeof(T));
    return at ? read<T>(*at) : default_value;
  }
  [[nodiscard]] bool has(size_t field) const { return place_of(field, 1).has_value(); }
  /// None where it is not there.
  [[nodiscard]] std::optional<FlatTable> table(size_t field) const;
  [[nodiscard]] std::string text(size_t field) const;  // empty where it is not there
  /// At most so many.
  [[nodiscard]] std::vector<FlatTable> tables(size_t field, size_t most) const;
  /// The elements of a vector of numbers or structs, of so many bytes each; empty where it is not
  /// there.
  [[nodiscard]] std::span<const std::byte> elements(size_t field, size_t element_bytes) const;

 private:
  FlatTable(std::span<const std::byte> bytes, size_t at, const std::string& path);

  template <class T>
  [[nodiscard]] T read(size_t at) const {
    require(at, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  void require(size_t at, size_t count) const;
  [[nodiscard]] std::optional<size_t> place_of(size_t field, size_t bytes) const;
  /// Where an offset that lies there leads to.
  [[nodiscard]] size_t target_of(size_t at) const;
  [[noreturn]] void fail() const;

  std::span<const std::byte> bytes_;
  size_t at_;
  size_t vtable_ = 0;
  size_t vtable_bytes_ = 0;
  const std::string* path_;
};

/// The error of a file that is no whole Arrow file.
[[noreturn]] void throw_bad_arrow(const std::string& path, const std::string& what);

}  // namespace snug::io
