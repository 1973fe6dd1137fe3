// SPDX-License-Identifier: Apache-2.0
#include "io/csv.h"

namespace snug::io {
namespace {

constexpr const char* kQuoteHint = "enclose the field in quotes and double each quote inside it";
constexpr const char* kReturnHint =
    "where it is a part of the field, enclose that in quotes; where it ends the line, write a line "
    "feed in its place (tr '\\r' '\\n' < FILE > NEW_FILE)";
constexpr const char* kOpenQuote = "the quote that opens here is not closed";
constexpr const char* kOpenHint = "close it; a quote inside a field is written twice";

}  // namespace

void CsvRecord::begin(int64_t line) {
  bytes_.clear();
  ends_.clear();
  line_ = line;
}

bool CsvReader::next(CsvRecord& record) {
  while (source_.peek() >= 0) {
    record.begin(line_);
    bool was_quoted = false;
    int after = 0;
    do {
      if (source_.peek() == '"') {
        was_quoted = true;
        read_inside_quotes(record);
      } else {
        read_bare_field(record);
      }
      if (record.size() == bounds_.fields)
        fail(CsvFault::malformed, record.line(),
             "more than " + std::to_string(bounds_.fields) + " fields",
             "remove the columns that are not needed");
      record.end_field();
      after = source_.get();
    } while (after == bounds_.delimiter);
    ++line_;
    if (record.size() > 1 || !record.bytes().empty() || was_quoted) return true;
  }
  return false;
}

// Stops before a delimiter, a line feed (its carriage return taken) or the end of the file.
void CsvReader::read_bare_field(CsvRecord& record) {
  for (int byte = source_.peek(); byte >= 0 && byte != bounds_.delimiter && byte != '\n';
       byte = source_.peek()) {
    (void)source_.get();
    if (byte == '\r') {
      if (source_.peek() == '\n') return;
      fail(CsvFault::malformed, line_, "a carriage return without a line feed outside quotes",
           kReturnHint);
    }
    if (byte == '"')
      fail(CsvFault::malformed, line_, "a quote inside a field that does not begin with one",
           kQuoteHint);
    if (is_full(record))
      fail(CsvFault::too_long, record.line(),
           "the record has more than " + std::to_string(bounds_.record_bytes) + " bytes",
           "shorten it");
    record.push(static_cast<char>(byte));
  }
}

void CsvReader::read_inside_quotes(CsvRecord& record) {
  const int64_t opened = line_;
  (void)source_.get();
  for (;;) {
    const int byte = source_.get();
    if (byte < 0)
      throw Error(ErrorCode::bad_data, place_of(source_.path(), opened), kOpenQuote, kOpenHint);
    if (byte == '"') {
      if (source_.peek() != '"') break;
      (void)source_.get();
    }
    if (byte == '\n') ++line_;
    if (is_full(record))
      throw BadRecord(CsvFault::endless, place_of(source_.path(), opened), kOpenQuote, kOpenHint);
    record.push(static_cast<char>(byte));
  }
  const int after = source_.peek();
  if (after < 0 || after == bounds_.delimiter || after == '\n') return;
  if (after == '\r') {
    (void)source_.get();
    if (source_.peek() == '\n') return;
  }
  fail(CsvFault::malformed, line_, "text after the closing quote of a field", kQuoteHint);
}

void CsvReader::fail(CsvFault fault, int64_t line, const std::string& message,
                     const std::string& hint) {
  source_.skip_line();
  ++line_;
  throw BadRecord(fault, place_of(source_.path(), line), message, hint);
}

std::string csv_field(std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos)
    return std::string(text);
  std::string quoted = "\"";
  for (const char byte : text) quoted += byte == '"' ? "\"\"" : std::string(1, byte);
  return quoted + '"';
}

}  // namespace snug::io
