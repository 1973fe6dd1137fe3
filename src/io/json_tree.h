// SPDX-License-Identifier: Apache-2.0
// The tree behind JsonValue: small nodes in the file's order, fields found by binary search (a
// tokenizer's vocabulary is one object with 100,000 keys), built by the parser's events so that
// depth, node count and duplicate keys are checked before memory is spent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_bounds.h"

namespace snug::io {

struct JsonNode {
  enum class Kind : uint8_t { null, boolean, integer, number, string, array, object };
  struct Children;
  Kind kind = Kind::null;
  bool boolean = false;
  bool is_unsigned = false;                      // a `number` from 2^63 to 2^64 - 1: in `integer`
  int64_t integer = 0;                           // of `integer`
  double number = 0;                             // of `integer` and `number`
  std::unique_ptr<std::string> text = {};        // of `string`
  std::unique_ptr<Children> children = nullptr;  // of `array` and `object`

  JsonNode();
  JsonNode(JsonNode&&) noexcept;
  JsonNode& operator=(JsonNode&&) noexcept;
  ~JsonNode();

  [[nodiscard]] const std::vector<JsonNode>& items() const;
  [[nodiscard]] const std::vector<std::string>& keys() const;
  [[nodiscard]] const JsonNode* find(std::string_view key) const;
};

struct JsonNode::Children {
  std::vector<JsonNode> items;
  std::vector<std::string> keys;  // of `object`, one for each item
  std::vector<uint32_t> by_key;   // item indices sorted by key
};

/// Parses or throws Error{bad_data} with `name` and the line.
[[nodiscard]] JsonNode parse_json_tree(std::string_view text, const std::string& name,
                                       const JsonBounds& bounds, const JsonTaken& taken);
/// Compact JSON.
[[nodiscard]] std::string dump_json_tree(const JsonNode& node);
/// A quoted JSON string; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string quote_json(std::string_view text);

}  // namespace snug::io
