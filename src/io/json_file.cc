// SPDX-License-Identifier: Apache-2.0
#include "io/json_file.h"

#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "io/file.h"
#include "io/json_tree.h"
#include "io/nearest.h"
#include "snug/error.h"

namespace snug::io {
namespace {

using NodeKind = JsonNode::Kind;

const JsonNode& node_of(const void* node) { return *static_cast<const JsonNode*>(node); }

// What was found instead, short enough for one line.
std::string describe(const JsonNode& node) {
  if (node.kind == NodeKind::array) return "a list of " + std::to_string(node.items().size());
  if (node.kind == NodeKind::object)
    return "an object of " + std::to_string(node.items().size()) + " fields";
  return clip_text(dump_json_tree(node), 60);
}

std::string range_text(int64_t min, int64_t max) {
  const bool has_min = min != std::numeric_limits<int64_t>::min();
  const bool has_max = max != std::numeric_limits<int64_t>::max();
  if (min == 1 && !has_max) return "a positive integer";
  if (has_min && has_max)
    return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (has_min) return "an integer of at least " + std::to_string(min);
  if (has_max) return "an integer of at most " + std::to_string(max);
  return "an integer";
}

}  // namespace

struct JsonValue::Document {
  std::string name;
  JsonNode root;
};

namespace {

// Finds the place of a node, since none is kept: it is asked for in errors only.
bool find_path(const JsonNode& from, const JsonNode* wanted, std::string& path) {
  if (&from == wanted) return true;
  if (from.children == nullptr) return false;
  for (size_t i = 0; i < from.items().size(); ++i) {
    const size_t length = path.size();
    if (from.kind == NodeKind::array)
      path += "[" + std::to_string(i) + "]";
    else
      path += (path.empty() ? "" : ".") + from.keys()[i];
    if (find_path(from.items()[i], wanted, path)) return true;
    path.resize(length);
  }
  return false;
}

}  // namespace

JsonValue::JsonValue(std::shared_ptr<const Document> document, const void* node)
    : document_(std::move(document)), node_(node) {}

JsonValue parse_json(std::string_view text, const std::string& name, const JsonBounds& bounds,
                     const JsonTaken& taken) {
  auto document = std::make_shared<JsonValue::Document>();
  document->name = name;
  document->root = parse_json_tree(text, name, bounds, taken);
  const JsonNode* root = &document->root;
  return JsonValue(std::move(document), root);
}

std::string JsonValue::path() const {
  std::string path;
  (void)find_path(document_->root, static_cast<const JsonNode*>(node_), path);
  return path;
}

JsonValue load_json(const std::string& path, int64_t max_bytes) {
  return parse_json(read_all(path, max_bytes), path);
}

std::string JsonValue::dump() const { return dump_json_tree(node_of(node_)); }

const std::string& JsonValue::file() const { return document_->name; }

void JsonValue::fail(const std::string& message, std::string hint) const {
  const std::string place = path();
  throw Error(ErrorCode::bad_data, file(),
              (place.empty() ? std::string("the document") : quote_json(place)) + " " + message,
              std::move(hint));
}

void JsonValue::wrong_type(std::string_view wanted) const {
  fail("must be " + std::string(wanted) + ", found " + describe(node_of(node_)));
}

bool JsonValue::is_null() const { return node_of(node_).kind == NodeKind::null; }
bool JsonValue::is_object() const { return node_of(node_).kind == NodeKind::object; }
bool JsonValue::is_array() const { return node_of(node_).kind == NodeKind::array; }
bool JsonValue::is_string() const { return node_of(node_).kind == NodeKind::string; }
bool JsonValue::is_bool() const { return node_of(node_).kind == NodeKind::boolean; }
bool JsonValue::is_integer() const { return node_of(node_).kind == NodeKind::integer; }
bool JsonValue::is_number() const {
  const NodeKind kind = node_of(node_).kind;
  return kind == NodeKind::integer || kind == NodeKind::number;
}

std::optional<JsonValue> JsonValue::find_or_null(std::string_view key) const {
  if (!is_object()) wrong_type("an object");
  const JsonNode* node = node_of(node_).find(key);
  if (node == nullptr) return std::nullopt;
  return JsonValue(document_, node);
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  std::optional<JsonValue> value = find_or_null(key);
  if (value && value->is_null()) return std::nullopt;
  return value;
}

bool JsonValue::has(std::string_view key) const { return is_object() && find(key).has_value(); }

JsonValue JsonValue::at(std::string_view key) const {
  std::optional<JsonValue> value = find(key);
  if (value) return *std::move(value);
  const std::string nearest = nearest_name(key, node_of(node_).keys());
  fail("lacks the field " + quote_json(key),
       nearest.empty() || nearest == key ? std::string() : "there is " + quote_json(nearest));
}

JsonValue JsonValue::at(int64_t index) const {
  if (!is_array()) wrong_type("a list");
  if (index < 0 || index >= size()) {
    fail("has " + std::to_string(size()) + " elements; element " + std::to_string(index) +
         " was wanted");
  }
  return JsonValue(document_, &node_of(node_).items()[static_cast<size_t>(index)]);
}

std::vector<std::string> JsonValue::keys() const {
  if (!is_object()) wrong_type("an object");
  return node_of(node_).keys();
}

int64_t JsonValue::size() const {
  if (!is_object() && !is_array()) wrong_type("a list or an object");
  return static_cast<int64_t>(node_of(node_).items().size());
}

std::string JsonValue::as_string() const {
  if (!is_string()) wrong_type("a text");
  return *node_of(node_).text;
}

bool JsonValue::as_bool() const {
  if (!is_bool()) wrong_type("true or false");
  return node_of(node_).boolean;
}

double JsonValue::as_double() const {
  if (!is_number()) wrong_type("a number");
  return node_of(node_).number;
}

int64_t JsonValue::as_int(int64_t min, int64_t max) const {
  const JsonNode& node = node_of(node_);
  int64_t value = node.integer;
  bool is_valid = node.kind == NodeKind::integer;
  // 3.0 is an integer as far as double counts them one by one.
  if (node.kind == NodeKind::number && std::trunc(node.number) == node.number &&
      std::fabs(node.number) <= 0x1p53) {
    value = static_cast<int64_t>(node.number);
    is_valid = true;
  }
  if (!is_valid || value < min || value > max) wrong_type(range_text(min, max));
  return value;
}

uint64_t JsonValue::as_unsigned() const {
  const JsonNode& node = node_of(node_);
  if (!node.is_unsigned && (node.kind != NodeKind::integer || node.integer < 0))
    wrong_type("a whole number from 0 to 2^64 - 1");
  return static_cast<uint64_t>(node.integer);
}

std::vector<std::string> JsonValue::as_strings() const {
  if (!is_array()) wrong_type("a list of texts");
  std::vector<std::string> texts;
  for (int64_t i = 0; i < size(); ++i) texts.push_back(at(i).as_string());
  return texts;
}

std::string JsonValue::get_string(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  return value ? value->as_string() : std::string(fallback);
}

bool JsonValue::get_bool(std::string_view key, bool fallback) const {
  const auto value = find(key);
  return value ? value->as_bool() : fallback;
}

double JsonValue::get_double(std::string_view key, double fallback) const {
  const auto value = find(key);
  return value ? value->as_double() : fallback;
}

int64_t JsonValue::get_int(std::string_view key, int64_t fallback) const {
  const auto value = find(key);
  return value ? value->as_int() : fallback;
}

int64_t JsonValue::get_positive(std::string_view key) const { return at(key).as_int(1); }

int64_t JsonValue::get_positive(std::string_view key, int64_t fallback) const {
  const auto value = find(key);
  return value ? value->as_int(1) : fallback;
}

}  // namespace snug::io
