// SPDX-License-Identifier: Apache-2.0
#include "solve/csv.h"

#include <algorithm>
#include <utility>

#include "snug/error.h"

namespace snug::solve {
namespace {

constexpr size_t kMaxFields = 64;

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string file)
    : rest_(text), file_(std::move(file)) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

bool CsvReader::next(std::vector<std::string>& fields) {
  while (!rest_.empty()) {
    record_line_ = line_;
    fields.clear();
    const bool is_quoted = rest_.front() == '"';
    for (bool has_more = true; has_more;) {
      if (fields.size() == kMaxFields) {
        fail(line_, "more than " + std::to_string(kMaxFields) + " fields",
             "remove the columns that are not needed");
      }
      std::string& field = fields.emplace_back();
      if (!rest_.empty() && rest_.front() == '"') {
        read_quoted(field);
      } else {
        read_bare(field);
      }
      has_more = !rest_.empty() && rest_.front() == ',';
      if (has_more) rest_.remove_prefix(1);
    }
    if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
    if (!rest_.empty()) rest_.remove_prefix(1);  // the line feed
    ++line_;
    if (fields.size() > 1 || !fields.front().empty() || is_quoted) return true;
  }
  return false;
}

std::string CsvReader::place() const { return file_ + ":" + std::to_string(record_line_); }

// Stops before a comma, a line break or the end.
void CsvReader::read_bare(std::string& field) {
  const size_t end = std::min(rest_.find_first_of(",\n\""), rest_.size());
  if (end < rest_.size() && rest_[end] == '"') {
    fail(line_, "a quote inside a field that does not begin with one",
         "put the whole field in quotes and double the quotes inside");
  }
  field = rest_.substr(0, end);
  const bool ends_line = end == rest_.size() || rest_[end] == '\n';
  if (ends_line && !field.empty() && field.back() == '\r') field.pop_back();
  rest_.remove_prefix(end);
}

void CsvReader::read_quoted(std::string& field) {
  const int64_t opened = line_;
  rest_.remove_prefix(1);
  while (true) {
    const size_t quote = rest_.find('"');
    if (quote == std::string_view::npos)
      fail(opened, "a quoted field that does not end", "close the quote");
    for (const char byte : rest_.substr(0, quote)) line_ += byte == '\n';
    field += rest_.substr(0, quote);
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n' &&
      !rest_.starts_with("\r\n")) {
    fail(line_, "text after the closing quote of a field", "double the quotes inside the field");
  }
}

void CsvReader::fail(int64_t line, const std::string& message, const std::string& hint) const {
  throw Error(ErrorCode::bad_data, file_ + ":" + std::to_string(line), message, hint);
}

std::string csv_field(std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos)
    return std::string(text);
  std::string quoted = "\"";
  for (const char byte : text) quoted += byte == '"' ? "\"\"" : std::string(1, byte);
  return quoted + '"';
}

}  // namespace snug::solve
