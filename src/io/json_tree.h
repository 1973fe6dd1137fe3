// SPDX-License-Identifier: Apache-2.0
// The tree behind JsonValue: small nodes in the file's order, fields found by binary search (a
// tokenizer's vocabulary is one object with 100,000 keys), built by the parser's events so that
// depth, node count and duplicate keys are checked before memory is spent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug::io {

struct JsonNode {
  enum class Kind : uint8_t { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;                 // of `integer`
  double number = 0;                   // of `integer` and `number`
  std::string text = {};               // of `string`
  std::vector<JsonNode> items = {};    // of `array` and `object`
  std::vector<std::string> keys = {};  // of `object`, one for each item
  std::vector<uint32_t> by_key = {};   // item indices sorted by key

  [[nodiscard]] const JsonNode* find(std::string_view key) const;
};

/// Parses or throws Error{bad_data} with `name` and the line.
[[nodiscard]] JsonNode parse_json_tree(std::string_view text, const std::string& name,
                                       int64_t max_depth);
/// Compact JSON.
[[nodiscard]] std::string dump_json_tree(const JsonNode& node);
/// A quoted JSON string; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string quote_json(std::string_view text);
/// The parser's own words without its prefixes, safe to print.
[[nodiscard]] std::string clean_parser_message(std::string_view text);

}  // namespace snug::io
