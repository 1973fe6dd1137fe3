// SPDX-License-Identifier: Apache-2.0
// Attributes of a node: data, so that equality, hashing, printing and parsing are written once for
// all ops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace snug {

enum class AttrKind : uint8_t { boolean, int64, real, text, ints };
using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

class Attrs {
 public:
  using Item = std::pair<std::string, AttrValue>;

  Attrs() = default;
  /// No name twice.
  Attrs(std::initializer_list<Item> items);

  void set(const std::string& name, AttrValue value);
  [[nodiscard]] bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Null where there is none.
  [[nodiscard]] const AttrValue* find(std::string_view name) const;
  /// By rising name.
  [[nodiscard]] const std::vector<Item>& items() const { return items_; }

  // Throw Error{internal} when the attribute is absent or of another kind: the op's schema has
  // already been checked.
  [[nodiscard]] bool boolean(const std::string& name) const;
  [[nodiscard]] int64_t int64(const std::string& name) const;
  [[nodiscard]] double real(const std::string& name) const;
  [[nodiscard]] const std::string& text(const std::string& name) const;
  [[nodiscard]] const std::vector<int64_t>& ints(const std::string& name) const;

  bool operator==(const Attrs&) const = default;

 private:
  std::vector<Item> items_;  // few, and a program has a hundred thousand nodes
};

[[nodiscard]] AttrKind kind_of(const AttrValue& value);
/// true, 3, 1.0e-5, "tanh", [0,2]; reals print so that they parse back to the same bits.
[[nodiscard]] std::string to_string(const AttrValue& value);

}  // namespace snug
