// SPDX-License-Identifier: Apache-2.0
#include "data/json_array.h"

#include <algorithm>
#include <utility>

#include "data/source.h"

namespace snug::data {
namespace {

constexpr const char* kArrayHint =
    "write the file again as one array of objects, or one object a line and name it .jsonl";

bool is_json_blank(int byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

std::string byte_text(int byte) {
  constexpr std::string_view kHexDigits = "0123456789ABCDEF";
  const auto bits = static_cast<size_t>(byte);
  if (byte > 32 && byte < 127) return std::string("'") + static_cast<char>(byte) + "'";
  return std::string("the byte 0x") + kHexDigits[bits >> 4] + kHexDigits[bits & 15];
}

}  // namespace

int JsonArray::get() {
  const int byte = source_.get();
  line_ += byte == '\n' ? 1 : 0;
  return byte;
}

void JsonArray::skip_blanks() {
  while (is_json_blank(source_.peek())) (void)get();
}

bool JsonArray::begin() {
  skip_blanks();
  return source_.peek() == '[';
}

bool JsonArray::next(std::string& text, int64_t affordable_bytes) {
  skip_blanks();
  if (number_ == 0 && source_.peek() == '[') (void)get();
  skip_blanks();
  int byte = source_.peek();
  if (byte == ']') {
    (void)get();
    check_rest();
    return false;
  }
  if (byte < 0) fail_cut_off();
  ++number_;
  if (number_ > 1) {
    if (byte != ',') fail_between(byte, "a comma or the end of the array");
    (void)get();
    skip_blanks();
    byte = source_.peek();
    if (byte < 0) fail_cut_off();
  }
  first_line_ = line_;
  if (byte == ',' || byte == ']' || byte == '}' || byte == ':') fail_between(byte, "an object");
  read_element(text, std::min(affordable_bytes, kMaxRowBytes));
  if (!is_too_long_) return true;
  if (affordable_bytes < kMaxRowBytes) throw unaffordable_row(source_.path(), affordable_bytes);
  throw row_too_long(place_of_row(source_.path(), first_line_, number_));
}

// A number or a word ends before the next comma, bracket or blank.
bool JsonArray::is_at_end_of_element(int byte) const {
  return depth_ == 0 && !is_in_text_ && (byte == ',' || byte == ']' || is_json_blank(byte));
}

void JsonArray::read_element(std::string& text, int64_t most_bytes) {
  text.clear();
  depth_ = 0;
  is_in_text_ = is_escaped_ = is_too_long_ = false;
  while (!is_at_end_of_element(source_.peek())) {
    const int byte = get();
    if (byte < 0) fail_cut_off();
    if (std::cmp_less(text.size(), most_bytes)) {
      text.push_back(static_cast<char>(byte));
    } else {
      is_too_long_ = true;
    }
    if (is_in_text_) {
      is_in_text_ = is_escaped_ || byte != '"';
      is_escaped_ = !is_escaped_ && byte == '\\';
      continue;
    }
    is_in_text_ = byte == '"';
    depth_ += byte == '{' || byte == '[' ? 1 : 0;
    depth_ -= byte == '}' || byte == ']' ? 1 : 0;
    if (depth_ <= 0 && (byte == '}' || byte == ']')) return;
  }
}

void JsonArray::check_rest() {
  skip_blanks();
  if (source_.peek() < 0) return;
  throw Error(ErrorCode::bad_data, io::place_of(source_.path(), line_),
              "the file goes on behind the end of its array", kArrayHint);
}

void JsonArray::fail_between(int byte, const char* expected) const {
  throw Error(ErrorCode::bad_data, io::place_of(source_.path(), line_),
              byte_text(byte) + " stands where " + expected + " is expected" +
                  (number_ > 1 ? ", behind the object " + std::to_string(number_ - 1) : ""),
              kArrayHint);
}

void JsonArray::fail_cut_off() const {
  throw Error(ErrorCode::bad_data, io::place_of(source_.path(), line_),
              "the file ends inside of its array" +
                  (number_ > 0 ? ", in or behind the object " + std::to_string(number_) +
                                     ", which begins in line " + std::to_string(first_line_)
                               : std::string()),
              "the file is cut off: write it again");
}

}  // namespace snug::data
