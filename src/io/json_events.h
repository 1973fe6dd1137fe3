// SPDX-License-Identifier: Apache-2.0
// The one parser of JSON, as events in the text's order, for readers that keep a part of what they
// see. Documents: json_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace snug::io {

/// Every event returns true to go on. Texts may be moved from.
class JsonEvents {
 public:
  JsonEvents() = default;
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;
  virtual ~JsonEvents() = default;

  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(int64_t value) = 0;  // below 0
  virtual bool number_unsigned(uint64_t value) = 0;
  /// With a fraction or an exponent, or beyond 64 bits; `text` is how it is written.
  virtual bool number_float(double value, const std::string& text) = 0;
  virtual bool string(std::string& value) = 0;
  virtual bool key(std::string& name) = 0;
  virtual bool start_object() = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  /// The text is no JSON; `position` counts bytes from 1, `message` begins with line and column and
  /// is safe to print. Ends the reading.
  virtual void broken(size_t position, const std::string& message) = 0;
};

/// False where the text is no JSON (UTF-8 included), or an event asked to end.
[[nodiscard]] bool read_json_events(std::string_view text, JsonEvents& events);

/// The parser's own words without its prefixes, safe to print.
[[nodiscard]] std::string clean_parser_message(std::string_view text);

}  // namespace snug::io
