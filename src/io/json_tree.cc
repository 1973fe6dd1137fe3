// SPDX-License-Identifier: Apache-2.0
#include "io/json_tree.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/json_events.h"
#include "snug/error.h"

namespace snug::io {
namespace {

// Returning false stops the parser; `message` then says why.
class TreeBuilder final : public JsonEvents {
 public:
  TreeBuilder(JsonNode& root, const JsonBounds& bounds, const JsonTaken& taken)
      : root_(root),
        bounds_(bounds),
        entries_(taken.entries),
        rows_(taken.rows),
        follows_path_(taken.entries.take || !taken.rows.empty()) {}

  std::string message;
  bool is_above_bound = false;  // the text may be right

  bool null() override { return add(JsonNode::Kind::null) != nullptr; }
  bool boolean(bool value) override {
    JsonNode* node = add(JsonNode::Kind::boolean);
    if (node != nullptr) node->boolean = value;
    return node != nullptr;
  }
  bool number_integer(int64_t value) override {
    if (is_entry()) return take_entry(value);
    if (list_ != nullptr) return take_cell({true, std::to_string(value)});
    JsonNode* node = add(JsonNode::Kind::integer);
    if (node == nullptr) return false;
    node->integer = value;
    node->number = static_cast<double>(value);
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return number_integer(static_cast<int64_t>(value));
    if (list_ != nullptr) return take_cell({true, std::to_string(value)});
    JsonNode* node = add(JsonNode::Kind::number);
    if (node == nullptr) return false;
    node->number = static_cast<double>(value);
    node->is_unsigned = true;
    node->integer = static_cast<int64_t>(value);
    return true;
  }
  bool number_float(double value, const std::string& text) override {
    if (list_ != nullptr) return take_cell({true, text});
    JsonNode* node = add(JsonNode::Kind::number);
    if (node != nullptr) node->number = value;
    return node != nullptr;
  }
  bool string(std::string& value) override {
    if (list_ != nullptr) return take_cell({false, std::move(value)});
    JsonNode* node = add(JsonNode::Kind::string);
    if (node != nullptr) node->text = std::make_unique<std::string>(std::move(value));
    return node != nullptr;
  }
  bool start_object() override { return open(JsonNode::Kind::object); }
  bool start_array() override {
    if (list_ == nullptr) return open(JsonNode::Kind::array);
    if (is_in_row_) return refuse_row();
    is_in_row_ = true;
    return true;
  }
  bool key(std::string& name) override {
    if (is_entry()) {
      entry_ = std::move(name);
      return true;
    }
    if (follows_path_) path_.back() = name;
    stack_.back()->children->keys.push_back(std::move(name));
    return true;
  }
  bool end_object() override {
    JsonNode::Children& object = *stack_.back()->children;
    leave();
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
  bool end_array() override {
    if (is_in_row_) {
      is_in_row_ = false;
      return take_row();
    }
    list_ = nullptr;
    leave();
    return true;
  }
  void broken(size_t, const std::string& why) override { message = why; }

 private:
  // A parent's vector may move its children when it grows, but open nodes are always the last of
  // theirs, and a parent grows only when its child is closed; so pointers on the stack stay valid.
  JsonNode* add(JsonNode::Kind kind) {
    if (list_ != nullptr) {
      (void)refuse_row();
      return nullptr;
    }
    if (is_entry()) {
      (void)take_entry(std::nullopt);
      return nullptr;
    }
    if (++nodes_ > bounds_.max_values) {
      message = "the document has more than " + std::to_string(bounds_.max_values) +
                " values, and so many are read at most";
      is_above_bound = true;
      return nullptr;
    }
    JsonNode* node = stack_.empty() ? &root_ : &stack_.back()->children->items.emplace_back();
    node->kind = kind;
    return node;
  }
  bool open(JsonNode::Kind kind) {
    if (static_cast<int64_t>(stack_.size()) >= bounds_.max_depth) {
      message = "values are nested deeper than " + std::to_string(bounds_.max_depth) + " levels";
      return false;
    }
    JsonNode* node = add(kind);
    if (node == nullptr) return false;
    node->children = std::make_unique<JsonNode::Children>();
    stack_.push_back(node);
    if (!follows_path_) return true;
    if (entries_.take && kind == JsonNode::Kind::object && path_ == entries_.path)
      entries_depth_ = stack_.size();
    for (const JsonRows& rows : rows_) {
      if (kind == JsonNode::Kind::array && path_ == rows.path) list_ = &rows;
    }
    path_.emplace_back();
    return true;
  }
  void leave() {
    if (stack_.size() == entries_depth_) entries_depth_ = 0;
    stack_.pop_back();
    if (follows_path_) path_.pop_back();
  }

  /// In the object whose entries the caller takes.
  [[nodiscard]] bool is_entry() const { return entries_depth_ > 0; }
  bool take_entry(std::optional<int64_t> value) {
    entries_.take(entry_, value);
    message = value ? std::string() : quote_json(entry_) + " is no whole number";
    return value.has_value();
  }

  /// In a list whose items the caller takes.
  bool take_cell(JsonRows::Cell cell) {
    constexpr size_t kMostCells = 16;
    if (row_.size() >= kMostCells) return refuse_row();
    row_.push_back(std::move(cell));
    return is_in_row_ || take_row();
  }
  bool take_row() {
    const bool is_known = list_->take(row_);
    row_.clear();
    return is_known || refuse_row();
  }
  bool refuse_row() {
    message = quote_json(list_->path.back()) + " has an item of another form";
    return false;
  }

  JsonNode& root_;
  JsonBounds bounds_;
  const JsonEntries& entries_;
  const std::vector<JsonRows>& rows_;
  bool follows_path_;
  int64_t nodes_ = 0;
  std::vector<JsonNode*> stack_;
  std::vector<std::string> path_;  // keys of the values around the parser, where some are taken
  size_t entries_depth_ = 0;
  std::string entry_;
  const JsonRows* list_ = nullptr;
  std::vector<JsonRows::Cell> row_;
  bool is_in_row_ = false;
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
      text += quote_json(*node.text);
      return;
    case JsonNode::Kind::array:
    case JsonNode::Kind::object:
      break;
  }
  const bool is_object = node.kind == JsonNode::Kind::object;
  text += is_object ? '{' : '[';
  for (size_t i = 0; i < node.items().size(); ++i) {
    if (i > 0) text += ',';
    if (is_object) text += quote_json(node.keys()[i]) + ":";
    dump(node.items()[i], text);
  }
  text += is_object ? '}' : ']';
}

}  // namespace

JsonNode::JsonNode() = default;
JsonNode::JsonNode(JsonNode&&) noexcept = default;
JsonNode& JsonNode::operator=(JsonNode&&) noexcept = default;
JsonNode::~JsonNode() = default;

const std::vector<JsonNode>& JsonNode::items() const { return children->items; }
const std::vector<std::string>& JsonNode::keys() const { return children->keys; }

const JsonNode* JsonNode::find(std::string_view key) const {
  const Children& own = *children;
  const auto found =
      std::lower_bound(own.by_key.begin(), own.by_key.end(), key,
                       [&](uint32_t i, std::string_view name) { return own.keys[i] < name; });
  return found != own.by_key.end() && own.keys[*found] == key ? &own.items[*found] : nullptr;
}

JsonNode parse_json_tree(std::string_view text, const std::string& name, const JsonBounds& bounds,
                         const JsonTaken& taken) {
  JsonNode root;
  TreeBuilder builder(root, bounds, taken);
  if (!read_json_events(text, builder)) {
    if (builder.is_above_bound) throw Error(ErrorCode::bad_data, name, builder.message);
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

}  // namespace snug::io
