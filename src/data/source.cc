// SPDX-License-Identifier: Apache-2.0
#include "data/source.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/numbers.h"
#include "base/utf8.h"

namespace snug::data {
namespace {

constexpr size_t kMaxNamedColumns = 16;

}  // namespace

bool read_row_line(io::TextFile& source, std::string& line, int64_t affordable_bytes,
                   const std::string& where) {
  const auto status = source.read_line(line, std::min(affordable_bytes, kMaxRowBytes));
  if (status == io::TextFile::Line::end) return false;
  if (status == io::TextFile::Line::ok) return true;
  if (affordable_bytes < kMaxRowBytes) throw unaffordable_row(source.path(), affordable_bytes);
  source.skip_line();
  throw row_too_long(where);
}

RowError row_too_long(const std::string& where) {
  return RowError(ErrorCode::bad_data, where,
                  "the row is longer than " + std::to_string(kMaxRowBytes >> 20) + " MiB",
                  "split or shorten the row, or set bad_rows to skip");
}

Error unaffordable_row(const std::string& file, int64_t affordable_bytes) {
  return Error(ErrorCode::out_of_budget, file,
               "a row is longer than " + std::to_string(affordable_bytes) +
                   " bytes, which is what the budget lets be read",
               "raise memory, or cut the row: only max_seq_length tokens of it count");
}

void check_cancelled(const std::atomic<bool>* cancel, const std::string& file) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
    throw Error(ErrorCode::cancelled, file, "stopped on request");
}

std::string place_of_row(const std::string& file, int64_t line, int64_t item) {
  const std::string place = io::place_of(file, line);
  return item > 0 ? place + ", object " + std::to_string(item) : place;
}

void check_text(std::string_view bytes, const std::string& where) {
  if (const auto bad = first_invalid_utf8(bytes)) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(bytes[*bad]);
    throw RowError(ErrorCode::bad_data, where,
                   std::string("invalid UTF-8: byte 0x") + kHex[byte >> 4] + kHex[byte & 15] +
                       " at offset " + std::to_string(*bad) + " of the row",
                   std::string(kToUtf8) + ", or set bad_rows to skip");
  }
  if (const auto bad = bytes.find('\0'); bad != std::string_view::npos) {
    throw RowError(ErrorCode::bad_data, where,
                   "a NUL byte at offset " + std::to_string(bad) + " of the row",
                   "remove it, or set bad_rows to skip");
  }
}

float parse_weight(std::string_view text, const std::string& column, const std::string& where) {
  const double given = number_in<double>(text).value_or(-1);
  const auto weight = static_cast<float>(given);
  if (weight >= 0 && std::isfinite(weight)) return weight;
  if (given >= 0 && std::isfinite(given))
    throw RowError(
        ErrorCode::bad_data, where,
        "the weight " + number_text(given) + " of the column '" + column + "' does not fit 32 bits",
        "scale the weights: what counts is their ratio");
  throw RowError(ErrorCode::bad_data, where,
                 text.empty() ? "there is no weight in the column '" + column + "'"
                              : "the weight '" + clip_text(std::string(text), 40) +
                                    "' of the column '" + column + "' is no number of at least 0",
                 "give the row a weight, or set bad_rows to skip");
}

std::string list_columns(const std::vector<std::string>& columns) {
  std::string names;
  for (size_t i = 0; i < columns.size() && i < kMaxNamedColumns; ++i) {
    names += (i == 0 ? "" : ", ") + clip_text(columns[i], 40);
  }
  if (columns.size() > kMaxNamedColumns) names += ", ...";
  return names.empty() ? "none" : names;
}

Error missing_column(const std::string& where, const std::string& column, const std::string& key,
                     const std::vector<std::string>& columns) {
  return Error(ErrorCode::bad_config, where,
               "there is no column '" + column + "'; the columns are: " + list_columns(columns),
               columns.empty() ? R"(write every row as {"text": "a text", "label": "its label"})"
                               : "set " + key + " to one of them");
}

}  // namespace snug::data
