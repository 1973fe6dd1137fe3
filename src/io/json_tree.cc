// SPDX-License-Identifier: Apache-2.0
#include "io/json_tree.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "snug/error.h"

namespace snug::io {
namespace {

constexpr int64_t kMaxNodes = 1'000'000;

// Receives the parser's events. Returning false stops the parser; `message` then says why.
class TreeBuilder {
 public:
  TreeBuilder(JsonNode& root, int64_t max_depth) : root_(root), max_depth_(max_depth) {}

  bool null() { return add({}) != nullptr; }
  bool boolean(bool value) {
    return add({.kind = JsonNode::Kind::boolean, .boolean = value}) != nullptr;
  }
  bool number_integer(int64_t value) {
    return add({.kind = JsonNode::Kind::integer,
                .integer = value,
                .number = static_cast<double>(value)}) != nullptr;
  }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return number_integer(static_cast<int64_t>(value));
    }
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string&) {
    return add({.kind = JsonNode::Kind::number, .number = value}) != nullptr;
  }
  bool string(std::string& value) {
    return add({.kind = JsonNode::Kind::string, .text = std::move(value)}) != nullptr;
  }
  bool binary(nlohmann::json::binary_t&) { return false; }  // not a part of JSON text
  bool start_object(size_t) { return open(JsonNode::Kind::object); }
  bool start_array(size_t) { return open(JsonNode::Kind::array); }
  bool key(std::string& name) {
    stack_.back()->keys.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    JsonNode& object = *stack_.back();
    stack_.pop_back();
    object.by_key.resize(object.keys.size());
    for (uint32_t i = 0; i < object.by_key.size(); ++i) object.by_key[i] = i;
    std::sort(object.by_key.begin(), object.by_key.end(),
              [&](uint32_t a, uint32_t b) { return object.keys[a] < object.keys[b]; });
    for (size_t i = 1; i < object.by_key.size(); ++i) {
      const std::string& name = object.keys[object.by_key[i]];
      if (name == object.keys[object.by_key[i - 1]]) {
        message = "the key " + quote_json(name) + " stands twice in one object";
        return false;
      }
    }
    return true;
  }
  bool end_array() {
    stack_.pop_back();
    return true;
  }
  template <class Exception>
  bool parse_error(size_t, const std::string&, const Exception& exception) {
    message = clean_parser_message(exception.what());
    return false;
  }

  std::string message;

 private:
  // A parent's vector may move its children when it grows, but open nodes are always the last of
  // theirs, and a parent grows only when its child is closed; so pointers on the stack stay valid.
  JsonNode* add(JsonNode node) {
    if (++nodes_ > kMaxNodes) {
      message = "the document has more than " + std::to_string(kMaxNodes) + " values";
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    return &stack_.back()->items.emplace_back(std::move(node));
  }
  bool open(JsonNode::Kind kind) {
    if (static_cast<int64_t>(stack_.size()) >= max_depth_) {
      message = "values are nested deeper than " + std::to_string(max_depth_) + " levels";
      return false;
    }
    JsonNode* node = add({.kind = kind});
    if (node == nullptr) return false;
    stack_.push_back(node);
    return true;
  }

  JsonNode& root_;
  int64_t max_depth_;
  int64_t nodes_ = 0;
  std::vector<JsonNode*> stack_;
};

void dump(const JsonNode& node, std::string& text) {
  switch (node.kind) {
    case JsonNode::Kind::null:
      text += "null";
      return;
    case JsonNode::Kind::boolean:
      text += node.boolean ? "true" : "false";
      return;
    case JsonNode::Kind::integer:
      text += std::to_string(node.integer);
      return;
    case JsonNode::Kind::number:
      text += nlohmann::json(node.number).dump();
      return;
    case JsonNode::Kind::string:
      text += quote_json(node.text);
      return;
    case JsonNode::Kind::array:
    case JsonNode::Kind::object:
      break;
  }
  const bool is_object = node.kind == JsonNode::Kind::object;
  text += is_object ? '{' : '[';
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) text += ',';
    if (is_object) text += quote_json(node.keys[i]) + ":";
    dump(node.items[i], text);
  }
  text += is_object ? '}' : ']';
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  const auto found =
      std::lower_bound(by_key.begin(), by_key.end(), key,
                       [&](uint32_t i, std::string_view name) { return keys[i] < name; });
  return found != by_key.end() && keys[*found] == key ? &items[*found] : nullptr;
}

JsonNode parse_json_tree(std::string_view text, const std::string& name, int64_t max_depth) {
  JsonNode root;
  TreeBuilder builder(root, max_depth);
  if (!nlohmann::json::sax_parse(text, &builder)) {
    throw Error(ErrorCode::bad_data, name, "broken JSON: " + builder.message,
                "correct the file at this place, or get it again");
  }
  return root;
}

std::string dump_json_tree(const JsonNode& node) {
  std::string text;
  dump(node, text);
  return text;
}

std::string quote_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string clean_parser_message(std::string_view text) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
  // ..."
  if (const size_t end = text.find("] ");
      text.starts_with("[json.") && end != std::string_view::npos) {
    text.remove_prefix(end + 2);
  }
  if (text.starts_with("parse error ")) text.remove_prefix(12);
  constexpr size_t kLongest = 300;
  std::string clean(text.substr(0, kLongest));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
  }
  return clean;
}

}  // namespace snug::io
