// SPDX-License-Identifier: Apache-2.0
#include "io/json_events.h"

#include <clocale>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace snug::io {
namespace {

// The library's interface of events.
class Forwarder {
 public:
  explicit Forwarder(JsonEvents& events) : to_(events) {}

  bool null() { return to_.null(); }
  bool boolean(bool value) { return to_.boolean(value); }
  bool number_integer(int64_t value) { return to_.number_integer(value); }
  bool number_unsigned(uint64_t value) { return to_.number_unsigned(value); }
  bool number_float(double value, const std::string& text) { return to_.number_float(value, text); }
  bool string(std::string& value) { return to_.string(value); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // not a part of JSON text
  bool key(std::string& name) { return to_.key(name); }
  bool start_object(size_t) { return to_.start_object(); }
  bool end_object() { return to_.end_object(); }
  bool start_array(size_t) { return to_.start_array(); }
  bool end_array() { return to_.end_array(); }
  template <class Exception>
  bool parse_error(size_t position, const std::string&, const Exception& exception) {
    to_.broken(position, clean_parser_message(exception.what()));
    return false;
  }

 private:
  JsonEvents& to_;
};

// The library reads numbers by strtod, with the decimal point of the locale that the host has set,
// and hands their text on with that point. Here this thread's locale is "C" for as long.
class PlainLocale {
 public:
  PlainLocale() {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    SNUG_CHECK(plain != nullptr, "there is no locale \"C\"");
    former_ = uselocale(plain);
  }
  ~PlainLocale() { uselocale(former_); }
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

 private:
  locale_t former_;
};

}  // namespace

bool read_json_events(std::string_view text, JsonEvents& events) {
  const PlainLocale plain;
  Forwarder forwarder(events);
  return nlohmann::json::sax_parse(text, &forwarder);
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
