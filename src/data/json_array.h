// SPDX-License-Identifier: Apache-2.0
// A file that is one JSON array, element after element: finds where each begins and ends and holds
// no other. What an element is, is its reader's affair.
#pragma once

#include <cstdint>
#include <string>

#include "io/text_file.h"

namespace snug::data {

class JsonArray {
 public:
  /// `source` is at its beginning, and outlives the array.
  explicit JsonArray(io::TextFile& source) : source_(source) {}

  /// True where the text begins as an array does. Takes the blanks in front.
  [[nodiscard]] bool begin();

  /// Reads the text of the next element; false at the end of the array. Throws Error{bad_data}
  /// where what stands between elements is not JSON's, where the file ends too early or goes on
  /// behind the array; and unaffordable_row or row_too_long for an element, after which it stands
  /// behind that one.
  [[nodiscard]] bool next(std::string& text, int64_t affordable_bytes);

  /// The line and the number of the element that was read last, counted from 1.
  [[nodiscard]] int64_t line() const { return first_line_; }
  [[nodiscard]] int64_t number() const { return number_; }

 private:
  [[nodiscard]] int get();
  void skip_blanks();
  [[nodiscard]] bool is_at_end_of_element(int byte) const;
  void read_element(std::string& text, int64_t most_bytes);
  [[noreturn]] void fail_between(int byte, const char* expected) const;
  [[noreturn]] void fail_cut_off() const;
  void check_rest();

  io::TextFile& source_;
  int64_t line_ = 1;  // that the next byte belongs to
  int64_t first_line_ = 1;
  int64_t number_ = 0;
  // Within an element.
  int64_t depth_ = 0;
  bool is_in_text_ = false;
  bool is_escaped_ = false;
  bool is_too_long_ = false;
};

}  // namespace snug::data
