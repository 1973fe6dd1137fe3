// SPDX-License-Identifier: Apache-2.0
// Reads fields of a JSON object of the tokenizer files; what is missing, of a wrong type or unknown
// is an Error that names it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_file.h"
#include "snug/error.h"
#include "text/added_tokens.h"

namespace snug::text {

class JsonFields {
 public:
  /// `name` says which object of the file this is.
  JsonFields(const std::optional<io::JsonValue>& object, std::string where, std::string name)
      : where_(std::move(where)), name_(std::move(name)) {
    if (!object || object->is_null()) fail("is missing");
    if (!object->is_object()) fail("is not an object");
    object_ = object;
  }

  [[nodiscard]] const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::unsupported, where_, name_ + " " + what,
                "docs/files.md says what is read of tokenizers");
  }
  /// A field may be there and null.
  [[nodiscard]] bool has(const std::string& key) const {
    return object_->find_or_null(key).has_value();
  }
  [[nodiscard]] bool has_value(const std::string& key) const { return object_->has(key); }
  [[nodiscard]] io::JsonValue at(const std::string& key) const {
    const std::optional<io::JsonValue> value = object_->find_or_null(key);
    if (!value) fail("has no " + key);
    return *value;
  }
  [[nodiscard]] std::vector<std::string> keys() const { return object_->keys(); }
  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const std::string& own : object_->keys()) {
      if (std::find(keys.begin(), keys.end(), own) == keys.end())
        fail("has the unknown field '" + own + "'");
    }
  }
  [[nodiscard]] std::string required_string(const std::string& key) const {
    const io::JsonValue value = at(key);
    if (!value.is_string()) fail("has a " + key + " that is no text");
    return value.as_string();
  }
  void require_string(const std::string& key, std::string_view expected) const {
    const std::string value = required_string(key);
    if (value != expected)
      fail(key + " '" + value + "' is not supported, only '" + std::string(expected) + "'");
  }
  [[nodiscard]] int64_t required_count(const std::string& key) const {
    const io::JsonValue value = at(key);
    const int64_t count = value.is_integer() ? value.as_int() : -1;
    if (count < 0 || count > std::numeric_limits<int32_t>::max())
      fail("has a " + key + " that is no count: " + value.dump());
    return count;
  }
  [[nodiscard]] bool required_boolean(const std::string& key) const {
    const io::JsonValue value = at(key);
    if (!value.is_bool()) fail("has a " + key + " that is neither true nor false");
    return value.as_bool();
  }
  /// Nothing where the field is null or missing.
  [[nodiscard]] std::optional<bool> boolean(const std::string& key) const {
    if (!has_value(key)) return std::nullopt;
    return required_boolean(key);
  }

 private:
  std::optional<io::JsonValue> object_;
  std::string where_;
  std::string name_;
};

/// The fields of an added token, without its id.
[[nodiscard]] inline AddedToken read_added_token(const JsonFields& fields) {
  AddedToken token;
  token.content = fields.required_string("content");
  if (token.content.empty()) fields.fail("has an empty content");
  token.special = fields.boolean("special").value_or(false);
  token.single_word = fields.boolean("single_word").value_or(false);
  token.lstrip = fields.boolean("lstrip").value_or(false);
  token.rstrip = fields.boolean("rstrip").value_or(false);
  token.normalized = fields.boolean("normalized").value_or(!token.special);
  return token;
}

}  // namespace snug::text
