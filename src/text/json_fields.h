// SPDX-License-Identifier: Apache-2.0
// Reads fields of a JSON object of the tokenizer files; what is missing, of a wrong type or unknown
// is an Error that names it. Included by .cc files only (it brings the JSON library along).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "snug/error.h"
#include "text/added_tokens.h"

namespace snug {

class JsonFields {
 public:
  /// `name` says which object of the file this is. Keeps a reference to `object`.
  JsonFields(const nlohmann::json& object, std::string where, std::string name)
      : object_(object), where_(std::move(where)), name_(std::move(name)) {
    if (!object_.is_object()) fail(object_.is_null() ? "is missing" : "is not an object");
  }

  [[nodiscard]] const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::unsupported, where_, name_ + " " + what,
                "Snug reads BERT's WordPiece tokenizers");
  }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] const nlohmann::json& at(const char* key) const {
    if (!has(key)) fail(std::string("has no ") + key);
    return object_.at(key);
  }
  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& item : object_.items()) {
      bool is_known = false;
      for (std::string_view key : keys) is_known = is_known || item.key() == key;
      if (!is_known) fail("has the unknown field '" + item.key() + "'");
    }
  }
  [[nodiscard]] std::string required_string(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) fail(std::string("has a ") + key + " that is no text");
    return value.get<std::string>();
  }
  void require_string(const char* key, std::string_view expected) const {
    const std::string value = required_string(key);
    if (value != expected)
      fail(std::string(key) + " '" + value + "' is not supported, only '" + std::string(expected) +
           "'");
  }
  void require_type(std::string_view expected) const { require_string("type", expected); }
  [[nodiscard]] int64_t required_count(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int32_t>::max()) {
      fail(std::string("has a ") + key + " that is no count: " + value.dump());
    }
    return value.get<int64_t>();
  }
  [[nodiscard]] bool required_boolean(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_boolean()) fail(std::string("has a ") + key + " that is neither true nor false");
    return value.get<bool>();
  }
  /// Nothing where the field is null or missing.
  [[nodiscard]] std::optional<bool> boolean(const char* key) const {
    if (!has(key) || object_.at(key).is_null()) return std::nullopt;
    if (!object_.at(key).is_boolean())
      fail(std::string("has a ") + key + " that is neither true nor false");
    return object_.at(key).get<bool>();
  }

 private:
  const nlohmann::json& object_;
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

}  // namespace snug
