// SPDX-License-Identifier: Apache-2.0
// TSV as GLUE writes it (a header line, tabs, no quoting at all) and CSV after RFC 4180 (a header,
// quoted fields with doubled quotes, delimiters and line breaks inside quotes). CSV is read
// strictly: a stray quote is an error rather than a guess, since a guess moves text between rows.
#include <algorithm>
#include <utility>

#include "data/source.h"

namespace snug::data {
namespace {

constexpr size_t kMaxFields = 4096;
constexpr int64_t kNoColumn = -1;

// The fields of one record, end to end in one string.
struct Record {
  std::string bytes;
  std::vector<size_t> ends;
  int64_t line = 0;  // where it begins

  void clear() {
    bytes.clear();
    ends.clear();
  }
  [[nodiscard]] std::string_view field(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    const size_t begin = at == 0 ? 0 : ends[at - 1];
    return std::string_view(bytes).substr(begin, ends[at] - begin);
  }
};

class DelimitedReader final : public RowReader {
 public:
  DelimitedReader(const std::string& file, const RowSchema& schema, char delimiter, BadRowLog& log)
      : source_(file), schema_(schema), delimiter_(delimiter), log_(log) {}

  bool next(Row& row) override {
    if (columns_.empty()) read_header();
    for (;;) {
      try {
        if (!read_record()) return false;
        fill(row);
        return true;
      } catch (const RowError& error) {
        log_.report(error);
      }
    }
  }
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] int64_t bytes_read() const override { return source_.position(); }
  [[nodiscard]] int64_t total_bytes() const override { return source_.total_bytes(); }

 private:
  [[nodiscard]] std::string place(int64_t line) const { return place_of(source_.path(), line); }

  void read_header() {
    try {
      if (!read_record()) {
        throw Error(ErrorCode::bad_data, source_.path(),
                    "the file is empty; a header line is expected",
                    "write the names of the columns into the first line");
      }
      check_text(record_.bytes, source_.path(), record_.line);
    } catch (const RowError& error) {
      throw Error(error);  // a broken header is not a row to skip
    }
    for (size_t i = 0; i < record_.ends.size(); ++i)
      columns_.emplace_back(record_.field(static_cast<int64_t>(i)));
    if (schema_.text_form == TextForm::words) {
      throw Error(ErrorCode::bad_config, source_.path(),
                  "texts that are lists of words exist in JSON lines alone",
                  "write the rows as .jsonl: \"" + schema_.text_column + "\": [\"a\", \"word\"]");
    }
    text_ = find(schema_.text_column, "text_column", true);
    if (!schema_.text_pair_column.empty())
      pair_ = find(schema_.text_pair_column, "text_pair_column", true);
    label_ = find(schema_.label_column, "label_column", schema_.needs_label);
  }

  int64_t find(const std::string& name, const char* key, bool is_needed) {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    if (found == columns_.end()) {
      if (is_needed) throw missing_column(place(record_.line), name, key, columns_);
      return kNoColumn;
    }
    if (std::find(found + 1, columns_.end(), name) != columns_.end()) {
      throw Error(ErrorCode::bad_data, place(record_.line),
                  "the column '" + name + "' occurs twice", "rename one of the two in the header");
    }
    return found - columns_.begin();
  }

  void fill(Row& row) {
    check_text(record_.bytes, source_.path(), record_.line);
    if (record_.ends.size() != columns_.size()) {
      throw RowError(ErrorCode::bad_data, place(record_.line),
                     std::to_string(record_.ends.size()) + " fields where the header has " +
                         std::to_string(columns_.size()),
                     "correct the row, or set bad_rows to skip");
    }
    row.text = record_.field(text_);
    row.pair.clear();
    if (pair_ != kNoColumn) row.pair = record_.field(pair_);
    row.label.reset();
    if (label_ != kNoColumn && !record_.field(label_).empty())
      row.label = RowLabel{.items = {std::string(record_.field(label_))}};
    row.line = record_.line;
  }

  // Reads the next record that is not a blank line; false at the end of the file. After a RowError
  // the source stands at the line after the error.
  bool read_record() {
    for (;;) {
      record_.clear();
      record_.line = line_;
      if (!(delimiter_ == ',' ? read_quoted() : read_plain())) return false;
      if (record_.ends.size() > 1 || !record_.bytes.empty() || was_quoted_) return true;
    }
  }

  bool read_plain() {
    const SourceFile::Line status = source_.read_line(text_line_, schema_.affordable_bytes);
    if (status == SourceFile::Line::end) return false;
    ++line_;
    if (status == SourceFile::Line::too_long) throw row_too_long(place(record_.line));
    was_quoted_ = false;
    for (const char byte : text_line_) {
      if (byte == delimiter_) {
        end_field();
      } else {
        record_.bytes.push_back(byte);
      }
    }
    end_field();
    return true;
  }

  bool read_quoted() {
    was_quoted_ = false;
    if (source_.peek() < 0) return false;
    for (;;) {
      if (source_.peek() == '"') {
        was_quoted_ = true;
        read_inside_quotes();
      } else {
        read_bare_field();
      }
      end_field();
      const int byte = source_.get();
      if (byte == delimiter_) continue;
      ++line_;
      return true;
    }
  }

  // Stops before a delimiter, a line feed (its carriage return taken) or the end of the file.
  void read_bare_field() {
    for (int byte = source_.peek(); byte >= 0 && byte != delimiter_ && byte != '\n';
         byte = source_.peek()) {
      (void)source_.get();
      if (byte == '\r') {
        if (source_.peek() == '\n') return;
        fail_row("a carriage return without a line feed outside quotes");
      }
      if (byte == '"') fail_row("a quote inside a field that does not begin with one");
      push(byte);
    }
  }

  void read_inside_quotes() {
    const int64_t opened = line_;
    (void)source_.get();
    for (;;) {
      const int byte = source_.get();
      if (byte < 0) fail_open_quote(opened);
      if (byte == '"') {
        if (source_.peek() != '"') break;
        (void)source_.get();
      }
      if (byte == '\n') ++line_;
      if (static_cast<int64_t>(record_.bytes.size()) >= kMaxRowBytes) fail_open_quote(opened);
      push(byte);
    }
    const int after = source_.peek();
    if (after < 0 || after == delimiter_ || after == '\n') return;
    if (after == '\r') {
      (void)source_.get();
      if (source_.peek() == '\n') return;
    }
    fail_row("text after the closing quote of a field");
  }

  void push(int byte) {
    if (static_cast<int64_t>(record_.bytes.size()) >= schema_.affordable_bytes &&
        schema_.affordable_bytes < kMaxRowBytes)
      throw unaffordable_row(source_.path(), schema_.affordable_bytes);
    if (static_cast<int64_t>(record_.bytes.size()) >= kMaxRowBytes) {
      source_.skip_line();
      ++line_;
      throw row_too_long(place(record_.line));
    }
    record_.bytes.push_back(static_cast<char>(byte));
  }

  void end_field() {
    if (record_.ends.size() == kMaxFields) {
      if (delimiter_ == ',') fail_row("more than " + std::to_string(kMaxFields) + " fields");
      throw RowError(ErrorCode::bad_data, place(record_.line),
                     "more than " + std::to_string(kMaxFields) + " fields");
    }
    record_.ends.push_back(record_.bytes.size());
  }

  [[noreturn]] void fail_row(const std::string& what) {
    const std::string where = place(line_);
    source_.skip_line();
    ++line_;
    throw RowError(
        ErrorCode::bad_data, where, what,
        "enclose the field in quotes and double each quote inside it, or set bad_rows to skip");
  }

  // Where the rows after it begin is anyone's guess, so this is never skipped.
  [[noreturn]] void fail_open_quote(int64_t opened) const {
    throw Error(ErrorCode::bad_data, place(opened), "the quote that opens here is not closed",
                "close it; a quote inside a field is written twice");
  }

  SourceFile source_;
  RowSchema schema_;
  char delimiter_;
  BadRowLog& log_;
  Record record_;
  std::string text_line_;
  bool was_quoted_ = false;
  int64_t line_ = 1;  // the line that the next byte belongs to
  std::vector<std::string> columns_;
  int64_t text_ = kNoColumn;
  int64_t pair_ = kNoColumn;
  int64_t label_ = kNoColumn;
};

}  // namespace

std::unique_ptr<RowReader> open_delimited(const std::string& file, const RowSchema& schema,
                                          char delimiter, BadRowLog& log) {
  return std::make_unique<DelimitedReader>(file, schema, delimiter, log);
}

}  // namespace snug::data
