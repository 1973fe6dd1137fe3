// SPDX-License-Identifier: Apache-2.0
// The lengths that rows are padded to. Most networks have one, which needs no name: 128. Others
// have several (an encoder's and a decoder's): {{"source", 32}, {"target", 16}}.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace snug {

/// The lengths of a row, of the longest rows of a batch, or of a program.
class Lengths {
 public:
  Lengths() = default;                                // rows have no length
  Lengths(int64_t length) : without_name_(length) {}  // NOLINT: alike; 0: none
  Lengths(std::initializer_list<std::pair<const std::string, int64_t>> named) : named_(named) {}

  /// The length of this name, or the one without; 0 where there is none.
  [[nodiscard]] int64_t of(const std::string& name = {}) const;
  Lengths& set(const std::string& name, int64_t length);
  /// In order of name; the name of the one without is empty.
  [[nodiscard]] std::map<std::string, int64_t> by_name() const;
  [[nodiscard]] bool empty() const { return without_name_ == 0 && named_.empty(); }
  [[nodiscard]] bool has_names() const { return !named_.empty(); }
  /// Whether rows of these lengths can be padded to it.
  [[nodiscard]] bool holds(const Lengths& rows) const;
  bool operator==(const Lengths&) const = default;

 private:
  int64_t without_name_ = 0;  // apart, so that the one length of most runs takes no heap block
  std::map<std::string, int64_t> named_;
};

/// "128"; "source 32, target 16"; "none".
[[nodiscard]] std::string to_string(const Lengths& lengths);

/// A program for each combination of these: every_combination({{"source", {8, 16}}, {"target", {8,
/// 16}}}) has four. The longest of all comes last. Throws Error{bad_config} for a name without
/// lengths.
[[nodiscard]] std::vector<Lengths> every_combination(
    const std::map<std::string, std::vector<int64_t>>& lengths);

/// One of the lengths of a program, as a size that knows its name: as the first axis of an input's
/// row it says which length that input follows.
class Length {
 public:
  Length(std::string name, int64_t size) : name_(std::move(name)), size_(size) {}
  operator int64_t() const { return size_; }  // NOLINT: a size
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  int64_t size_;
};

}  // namespace snug
