// SPDX-License-Identifier: Apache-2.0
// JSON documents with typed getters that know their place, so a wrong field is one clear error:
//   [config.json] "hidden_size" must be a positive integer, found "abc"
// Size, depth and duplicate keys are checked while reading. The parser's own header stays in
// json_events.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_bounds.h"

namespace snug::io {

/// A place in a document. Cheap to copy; keeps the document alive. Getters throw Error{bad_data}.
class JsonValue {
 public:
  /// True if this is an object that has the key with a value other than null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The field; throws if this is no object or has no such key.
  [[nodiscard]] JsonValue at(std::string_view key) const;
  /// The element of an array.
  [[nodiscard]] JsonValue at(int64_t index) const;
  /// The field, or nothing if it is missing or null.
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;
  /// The field, null or not, or nothing if it is missing.
  [[nodiscard]] std::optional<JsonValue> find_or_null(std::string_view key) const;

  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  /// A number written without fraction and exponent, within 64 bits.
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] bool is_bool() const;

  /// Keys of an object in the file's order.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Elements of an array or fields of an object.
  [[nodiscard]] int64_t size() const;

  [[nodiscard]] std::string as_string() const;
  [[nodiscard]] bool as_bool() const;
  /// A finite number.
  [[nodiscard]] double as_double() const;
  /// An integer in [min, max]; 3.0 is one, "3" and 3.5 are not.
  [[nodiscard]] int64_t as_int(int64_t min = std::numeric_limits<int64_t>::min(),
                               int64_t max = std::numeric_limits<int64_t>::max()) const;
  /// An integer from 0 to 2^64 - 1.
  [[nodiscard]] uint64_t as_unsigned() const;
  [[nodiscard]] std::vector<std::string> as_strings() const;

  [[nodiscard]] std::string get_string(std::string_view key) const { return at(key).as_string(); }
  [[nodiscard]] std::string get_string(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] bool get_bool(std::string_view key) const { return at(key).as_bool(); }
  [[nodiscard]] bool get_bool(std::string_view key, bool fallback) const;
  [[nodiscard]] double get_double(std::string_view key) const { return at(key).as_double(); }
  [[nodiscard]] double get_double(std::string_view key, double fallback) const;
  [[nodiscard]] int64_t get_int(std::string_view key) const { return at(key).as_int(); }
  [[nodiscard]] int64_t get_int(std::string_view key, int64_t fallback) const;
  /// An integer above 0.
  [[nodiscard]] int64_t get_positive(std::string_view key) const;
  [[nodiscard]] int64_t get_positive(std::string_view key, int64_t fallback) const;

  /// "text_config.layers[3]"; empty at the root.
  [[nodiscard]] std::string path() const;
  /// The file's name, for errors.
  [[nodiscard]] const std::string& file() const;
  /// Compact JSON of this value.
  [[nodiscard]] std::string dump() const;
  /// Throws Error{bad_data} at this place: "[file] "path" <message>".
  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const;

 private:
  struct Document;
  friend JsonValue parse_json(std::string_view text, const std::string& name,
                              const JsonBounds& bounds, const JsonTaken& taken);
  JsonValue(std::shared_ptr<const Document> document, const void* node);
  [[noreturn]] void wrong_type(std::string_view wanted) const;

  std::shared_ptr<const Document> document_;
  const void* node_ = nullptr;
};

/// Parses a text; `name` stands for it in errors. Invalid UTF-8, duplicate keys and more than the
/// bounds are Error{bad_data}.
[[nodiscard]] JsonValue parse_json(std::string_view text, const std::string& name,
                                   const JsonBounds& bounds = {}, const JsonTaken& taken = {});
/// Loads a file of at most `max_bytes`.
[[nodiscard]] JsonValue load_json(const std::string& path, int64_t max_bytes = int64_t{16} << 20);

}  // namespace snug::io
