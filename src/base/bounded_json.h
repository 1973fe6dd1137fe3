// SPDX-License-Identifier: Apache-2.0
// A JSON document of foreign bytes: nesting and the number of values are bounded before memory and
// stack are spent on them (copying or printing a document takes a stack frame a level), and no key
// stands twice in one object. Included by .cc files only (it brings the JSON library along).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace snug {

struct JsonBounds {
  int max_depth = 64;
  int64_t max_values = 100'000;
};

/// Why a text is no such document; the caller adds the place.
struct BadJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The number of a document; BadJson where it is none of 64 bits (the library converts fractions,
/// and one beyond 64 bits is undefined).
template <class Json>
[[nodiscard]] int64_t whole_number(const Json& value, const char* name) {
  const bool is_whole =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.template get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!is_whole) throw BadJson(std::string(name) + " is no whole number of 64 bits");
  return value.template get<int64_t>();
}

/// Parses a text or a stream; `inner` is the library's own callback. Throws BadJson.
template <class Json = nlohmann::json, class Input>
[[nodiscard]] Json parse_bounded_json(Input&& input, const JsonBounds& bounds,
                                      const typename Json::parser_callback_t& inner = nullptr) {
  using Event = typename Json::parse_event_t;
  int64_t values = 0;
  bool drops_next = false;                  // the value of a key that `inner` did not keep
  std::vector<std::set<std::string>> keys;  // of the objects around the parser, by depth
  const auto callback = [&](int depth, Event event, Json& value) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= bounds.max_depth)
      throw BadJson("values are nested deeper than " + std::to_string(bounds.max_depth) +
                    " levels");
    const auto level = static_cast<size_t>(depth);  // of a key: one more than its object's
    if (event == Event::object_start) {
      keys.resize(level + 1);
      keys[level].clear();
    }
    const bool keeps = !inner || inner(depth, event, value);
    const bool is_dropped = std::exchange(drops_next, event == Event::key && !keeps);
    if (!keeps || is_dropped) return keeps;
    if ((opens || event == Event::value) && ++values > bounds.max_values)
      throw BadJson("it holds more than " + std::to_string(bounds.max_values) + " values");
    if (event == Event::key && !keys[level - 1].insert(value.template get<std::string>()).second)
      throw BadJson("the key " + value.dump() + " stands twice in one object");
    return true;
  };
  try {
    return Json::parse(std::forward<Input>(input), callback);
  } catch (const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const size_t end = text.find("] ");
    throw BadJson(end == std::string::npos ? text : text.substr(end + 2));
  }
}

}  // namespace snug
