// SPDX-License-Identifier: Apache-2.0
// The pieces that all row readers share: row errors and the checks of a row's text.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/row_reader.h"
#include "io/text_file.h"
#include "snug/error.h"

namespace snug::data {

/// An error of one row, which the policy skip may pass over; any other Error ends the reading.
struct RowError : Error {
  using Error::Error;
  explicit RowError(const Error& error) : Error(error) {}
};

/// The first row that `read` makes without a RowError, of which the log hears; false at the end,
/// where `read` is.
template <class Read>
[[nodiscard]] bool next_good_row(BadRowLog& log, const Read& read) {
  for (;;) {
    try {
      return read();
    } catch (const RowError& error) {
      log.report(error);
    }
  }
}

/// The most items that a list in a row may have.
inline constexpr int64_t kMaxListItems = int64_t{1} << 16;
inline constexpr const char* kTokensHint =
    "join the tokens of a row to one string (the task token_classification has a label for each)";

/// Reads a line of rows; false at the end. Throws unaffordable_row, or row_too_long at `where`, and
/// stands at the next line then.
[[nodiscard]] bool read_row_line(io::TextFile& source, std::string& line, int64_t affordable_bytes,
                                 const std::string& where);
/// The RowError of a row above kMaxRowBytes.
[[nodiscard]] RowError row_too_long(const std::string& where);
/// The error of a row that the budget does not let be read.
[[nodiscard]] Error unaffordable_row(const std::string& file, int64_t affordable_bytes);
/// Throws RowError where the bytes of a row are not UTF-8 or hold a NUL.
void check_text(std::string_view bytes, const std::string& where);
/// The weight of a row, whose column is called `column`. Throws RowError for what is no number of
/// at least 0.
[[nodiscard]] float parse_weight(std::string_view text, const std::string& column,
                                 const std::string& where);
/// "file:line", and of an array of JSON "file:line, object 3".
[[nodiscard]] std::string place_of_row(const std::string& file, int64_t line, int64_t item);
[[nodiscard]] inline std::string place_of_row(const std::string& file, const Row& row) {
  return place_of_row(file, row.line, row.item);
}
/// Throws Error{cancelled} where the flag is set; null: never.
void check_cancelled(const std::atomic<bool>* cancel, const std::string& file);
/// The first names, for error texts.
[[nodiscard]] std::string list_columns(const std::vector<std::string>& columns);
/// The error for a column that a whole file lacks; `key` is the configuration key that names it.
[[nodiscard]] Error missing_column(const std::string& where, const std::string& column,
                                   const std::string& key, const std::vector<std::string>& columns);

/// `may_be_array`: where the file begins so.
[[nodiscard]] std::unique_ptr<RowReader> open_json(const std::string& file, const RowSchema& schema,
                                                   bool may_be_array, BadRowLog& log);
[[nodiscard]] std::unique_ptr<RowReader> open_delimited(const std::string& file,
                                                        const RowSchema& schema, char usual,
                                                        BadRowLog& log);
[[nodiscard]] std::unique_ptr<RowReader> open_arrow(const std::string& file,
                                                    const RowSchema& schema, BadRowLog& log);

}  // namespace snug::data
