// SPDX-License-Identifier: Apache-2.0
// Rows of TSV as GLUE writes it (a header line, tabs, no quoting at all) and of CSV (io/csv.h).
#include <algorithm>
#include <utility>

#include "data/source.h"
#include "io/csv.h"

namespace snug::data {
namespace {

constexpr size_t kMaxFields = 4096;
constexpr size_t kNoColumn = SIZE_MAX;
constexpr char kOrSkip[] = ", or set bad_rows to skip";

struct Delimiter {
  char byte = ',';
  bool has_quotes = true;
};

constexpr char kDelimiters[] = {',', ';', '\t', '|'};

// The header's names; quotes around them are no part of them.
std::vector<std::string> names_in(std::string_view header, char delimiter) {
  std::vector<std::string> names(1);
  bool is_quoted = false;
  for (const char byte : header) {
    if (byte == '"') {
      is_quoted = !is_quoted;
    } else if (byte == delimiter && !is_quoted) {
      names.emplace_back();
    } else {
      names.back() += byte;
    }
  }
  return names;
}

char delimiter_in(std::string_view header, const std::string& text_column, char usual) {
  std::vector<char> candidates = {usual};
  for (const char each : kDelimiters) {
    if (each != usual) candidates.push_back(each);
  }
  for (const char each : candidates) {
    const std::vector<std::string> names = names_in(header, each);
    if (std::find(names.begin(), names.end(), text_column) != names.end()) return each;
  }
  const auto cuts = [&](char each) { return names_in(header, each).size() > 1; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), cuts);
  return found == candidates.end() ? usual : *found;
}

// `usual`: the suffix's own.
Delimiter delimiter_of(const std::string& file, const RowSchema& schema, char usual) {
  char byte = schema.delimiter;
  if (byte == 0) {
    io::TextFile source(file, io::Gzip::is_unpacked);
    source.begin_text();
    std::string header;
    // A header that is too long is refused where it is read.
    while (header.empty() &&
           source.read_line(header, std::min(schema.affordable_bytes, kMaxRowBytes)) ==
               io::TextFile::Line::ok) {
    }
    byte = delimiter_in(header, schema.text_column, usual);
  }
  return {byte, usual != '\t' || byte != '\t'};
}

Quotes quotes_of(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return Quotes::none;
  const std::string_view inner = field.substr(1, field.size() - 2);
  Quotes found = Quotes::around;
  for (size_t at = inner.find('"'); at != std::string_view::npos; at = inner.find('"', at + 2)) {
    if (at + 1 >= inner.size() || inner[at + 1] != '"') return Quotes::none;
    found = Quotes::doubled;
  }
  return found;
}

class DelimitedReader final : public RowReader {
 public:
  DelimitedReader(const std::string& file, const RowSchema& schema, Delimiter delimiter,
                  BadRowLog& log)
      : source_(file, io::Gzip::is_unpacked),
        schema_(schema),
        delimiter_(delimiter),
        log_(log),
        csv_(source_, {.record_bytes = std::min(schema.affordable_bytes, kMaxRowBytes),
                       .fields = kMaxFields,
                       .delimiter = delimiter.byte}) {
    source_.begin_text();
  }

  bool next(Row& row) override {
    if (columns_.empty()) read_header();
    return next_good_row(log_, [&] {
      if (!read_record()) return false;
      fill(row);
      return true;
    });
  }
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] int64_t bytes_read() const override { return source_.position(); }
  [[nodiscard]] int64_t total_bytes() const override { return source_.total_bytes(); }

 private:
  [[nodiscard]] std::string place(int64_t line) const { return io::place_of(source_.path(), line); }

  void read_header() {
    try {
      if (!read_record()) {
        throw Error(ErrorCode::bad_data, source_.path(),
                    "the file is empty; a header line is expected",
                    "write the names of the columns into the first line");
      }
      check_text(record_.bytes(), place(record_.line()));
    } catch (const RowError& error) {
      // A broken header is not a row to skip.
      throw Error(error.code(), error.where(), error.message(),
                  error.hint().substr(0, error.hint().find(kOrSkip)));
    }
    for (size_t i = 0; i < record_.size(); ++i) columns_.emplace_back(record_.field(i));
    if (schema_.text_form == TextForm::words) {
      throw Error(ErrorCode::bad_config, source_.path(),
                  "texts that are lists of words exist only in JSON",
                  "write the rows as .jsonl: \"" + schema_.text_column + "\": [\"a\", \"word\"]");
    }
    text_ = find(schema_.text_column, "text_column", true);
    if (!schema_.text_pair_column.empty())
      pair_ = find(schema_.text_pair_column, "text_pair_column", true);
    label_ = find(schema_.label_column, "label_column", schema_.needs_label);
    if (!schema_.weight_column.empty())
      weight_ = find(schema_.weight_column, "weight_column", true);
  }

  size_t find(const std::string& name, const char* key, bool is_needed) {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    if (found == columns_.end()) {
      if (is_needed) throw missing_column(place(record_.line()), name, key, columns_);
      return kNoColumn;
    }
    if (std::find(found + 1, columns_.end(), name) != columns_.end()) {
      throw Error(ErrorCode::bad_data, place(record_.line()),
                  "the column '" + name + "' occurs twice", "rename one of the two in the header");
    }
    return static_cast<size_t>(found - columns_.begin());
  }

  void fill(Row& row) {
    check_text(record_.bytes(), place(record_.line()));
    if (record_.size() != columns_.size()) {
      throw RowError(ErrorCode::bad_data, place(record_.line()),
                     std::to_string(record_.size()) + " fields where the header has " +
                         std::to_string(columns_.size()),
                     std::string("correct the row") + kOrSkip);
    }
    row.text = record_.field(text_);
    row.pair.clear();
    if (pair_ != kNoColumn) row.pair = record_.field(pair_);
    row.label.reset();
    if (label_ != kNoColumn && !record_.field(label_).empty())
      row.label = RowLabel{.items = {std::string(record_.field(label_))}};
    row.quotes = Quotes::none;
    for (const size_t column : {text_, pair_, label_}) {
      if (!delimiter_.has_quotes && column != kNoColumn)
        row.quotes = std::max(row.quotes, quotes_of(record_.field(column)));
    }
    if (weight_ != kNoColumn)
      row.weight =
          parse_weight(record_.field(weight_), schema_.weight_column, place(record_.line()));
    row.line = record_.line();
  }

  // Reads the next record that is not a blank line; false at the end of the file. After a RowError
  // the source stands at the line after the error.
  bool read_record() {
    if (!delimiter_.has_quotes) return read_plain();
    try {
      return csv_.next(record_);
    } catch (const io::BadRecord& bad) {
      const bool is_malformed = bad.fault == io::CsvFault::malformed;
      if (!is_malformed && schema_.affordable_bytes < kMaxRowBytes)
        throw unaffordable_row(source_.path(), schema_.affordable_bytes);
      if (bad.fault == io::CsvFault::endless) throw;
      if (!is_malformed) throw row_too_long(bad.where());
      throw RowError(bad.code(), bad.where(), bad.message(), bad.hint() + kOrSkip);
    }
  }

  bool read_plain() {
    do {
      record_.begin(++line_);
      if (!read_row_line(source_, text_line_, schema_.affordable_bytes, place(line_))) return false;
    } while (text_line_.empty());
    for (const char byte : text_line_) {
      if (byte == delimiter_.byte) {
        end_field();
      } else {
        record_.push(byte);
      }
    }
    end_field();
    return true;
  }

  void end_field() {
    if (record_.size() == kMaxFields)
      throw RowError(ErrorCode::bad_data, place(line_),
                     "more than " + std::to_string(kMaxFields) + " fields");
    record_.end_field();
  }

  io::TextFile source_;
  RowSchema schema_;
  Delimiter delimiter_;
  BadRowLog& log_;
  io::CsvReader csv_;
  io::CsvRecord record_;
  std::string text_line_;
  int64_t line_ = 0;  // of TSV, the last that was read
  std::vector<std::string> columns_;
  size_t text_ = kNoColumn;
  size_t pair_ = kNoColumn;
  size_t label_ = kNoColumn;
  size_t weight_ = kNoColumn;
};

}  // namespace

std::unique_ptr<RowReader> open_delimited(const std::string& file, const RowSchema& schema,
                                          char usual, BadRowLog& log) {
  return std::make_unique<DelimitedReader>(file, schema, delimiter_of(file, schema, usual), log);
}

}  // namespace snug::data
