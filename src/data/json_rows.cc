// SPDX-License-Identifier: Apache-2.0
// Objects of JSON: one a line, or the elements of one array (json_array.h). A streaming (SAX) parse
// keeps the wanted columns alone, so an object of 16 MiB costs a few times its own size and never a
// document tree.
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/numbers.h"
#include "base/utf8.h"
#include "data/json_array.h"
#include "data/source.h"
#include "io/json_events.h"

namespace snug::data {
namespace {

constexpr size_t kMaxColumns = 32;
constexpr size_t kMaxParserTextBytes = 160;
constexpr const char* kLineHint =
    "every line must be one complete JSON object; correct it, or set bad_rows to skip";
constexpr const char* kElementHint =
    "every element of the array must be one complete JSON object; correct it, or set bad_rows to "
    "skip";
constexpr const char* kWordsHint =
    "give the text as a list of words: [\"a\", \"word\"], or give --task classification "
    "--fresh_head to learn labels of whole texts";
constexpr const char* kObjectHint =
    R"(write every row as an object: {"text": "a text", "label": "its label"})";

/// A whole number without a point or an exponent; one of more digits than a double holds as it is
/// written.
std::string whole_text(double value, const std::string& text) {
  if (std::abs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  if (text.find_first_of(".eE") == std::string::npos) return text;
  return fixed_text(value, 0);
}

// Returning false from a callback ends the parse; `problem` then says why.
class RowHandler final : public io::JsonEvents {
 public:
  RowHandler(const RowSchema& schema, Row& row, std::vector<std::string>* columns)
      : schema_(schema), row_(row), columns_(columns) {}

  std::string problem;
  const char* hint = kLineHint;
  std::string list_column;  // the first column of the first row that holds a list
  bool is_array = false;
  bool has_text = false;
  bool has_pair = false;
  bool has_label = false;
  std::string weight;  // as text; empty: there is none

  bool null() override { return take("null", nullptr, /*is_null=*/true); }
  bool boolean(bool value) override { return scalar("a boolean", value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return number(std::to_string(value), false); }
  bool number_unsigned(uint64_t value) override { return number(std::to_string(value), false); }
  bool number_float(double value, const std::string& text) override {
    const bool is_whole = std::trunc(value) == value;
    return number(is_whole ? whole_text(value, text) : text, !is_whole);
  }
  bool string(std::string& value) override { return take("a string", &value, false); }
  bool start_object() override {
    if (is_in_list()) return fail("the column '" + column_name() + "' holds an object in its list");
    if (depth_ == 1 && !take("an object", nullptr, false)) return false;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array() override {
    if (depth_ == 0) {
      is_array = true;
      return fail("a JSON array where an object is expected", kObjectHint);
    }
    if (depth_ == 1 && columns_ != nullptr && list_column.empty() && !columns_->empty())
      list_column = columns_->back();
    if (depth_ == 1 && column_ == Column::label) {
      row_.label = RowLabel{.items = {}, .is_list = true};
    } else if (depth_ == 1 && column_ == Column::text && schema_.text_form != TextForm::text) {
      row_.has_words = true;
    } else if (depth_ == 1 && !take("an array", nullptr, false)) {
      return false;
    } else if (is_in_list()) {
      return fail("the column '" + column_name() + "' holds a list in a list");
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    if (columns_ != nullptr && columns_->size() < kMaxColumns)
      columns_->push_back(clip_text(name, 64));
    if (name == schema_.text_column) return begin(Column::text, has_text, name);
    if (!schema_.text_pair_column.empty() && name == schema_.text_pair_column) {
      return begin(Column::pair, has_pair, name);
    }
    if (!schema_.label_column.empty() && name == schema_.label_column)
      return begin(Column::label, has_label, name);
    if (!schema_.weight_column.empty() && name == schema_.weight_column)
      return begin(Column::weight, has_weight_, name);
    column_ = Column::other;
    return true;
  }
  void broken(size_t position, const std::string& message) override {
    // "at line 1, column 7: syntax error while ..."
    const size_t colon = message.find(": ");
    const std::string reason = colon == std::string::npos ? message : message.substr(colon + 2);
    (void)fail("broken JSON at column " + std::to_string(position) + ": " +
               clip_text(reason, kMaxParserTextBytes));
  }

 private:
  enum class Column : uint8_t { other, text, pair, label, weight };

  bool fail(std::string text, const char* fix = kLineHint) {
    problem = std::move(text);
    hint = fix;
    return false;
  }
  bool begin(Column column, bool& seen, const std::string& name) {
    if (seen) return fail("the column '" + name + "' occurs twice", "keep one of them");
    seen = true;
    column_ = column;
    return true;
  }
  /// Between the brackets of a label or of a list of words.
  [[nodiscard]] bool is_in_list() const {
    return depth_ == 2 && (column_ == Column::label || (column_ == Column::text && row_.has_words));
  }
  [[nodiscard]] const std::string& column_name() const {
    return column_ == Column::label  ? schema_.label_column
           : column_ == Column::text ? schema_.text_column
           : column_ == Column::pair ? schema_.text_pair_column
                                     : schema_.weight_column;
  }
  bool number(std::string text, bool has_fraction) {
    if (column_ == Column::weight && depth_ == 1) {
      weight = std::move(text);
      return true;
    }
    if (column_ != Column::label || depth_ == 0 || (depth_ > 1 && !is_in_list()))
      return take("a number", nullptr, false);
    if (depth_ == 1) row_.label = RowLabel{};
    RowLabel& label = *row_.label;
    if (!label.items.empty() && !label.is_number) return fail_mixed();
    if (label.items.size() == kMaxListItems) return fail_long_list();
    label.items.push_back(std::move(text));
    label.is_number = true;
    label.has_fraction = label.has_fraction || has_fraction;
    return true;
  }
  bool fail_mixed() {
    return fail("the label is a list of texts and numbers", "give texts alone or numbers alone");
  }
  bool scalar(const char* kind, std::string text) {
    if (depth_ == 1 && column_ == Column::label) {
      row_.label = RowLabel{.items = {std::move(text)}};
      return true;
    }
    return take(kind, nullptr, false);
  }
  /// A value in a list of words or of labels.
  bool take_item(const char* kind, const std::string* text) {
    if (text == nullptr)
      return fail("the column '" + column_name() + "' holds " + std::string(kind) + " in its list",
                  column_ == Column::text ? kWordsHint : "give a list of texts, or of numbers");
    if (column_ == Column::label && row_.label->is_number) return fail_mixed();
    std::vector<std::string>& items = column_ == Column::text ? row_.words : row_.label->items;
    if (items.size() == kMaxListItems) return fail_long_list();
    items.push_back(*text);
    return true;
  }
  bool fail_long_list() {
    return fail("the column '" + column_name() + "' is a list of more than " +
                    std::to_string(kMaxListItems) + " values",
                "split the row, or set bad_rows to skip");
  }
  // A value of the given kind; `text` is null unless it is a string.
  bool take(const char* kind, std::string* text, bool is_null) {
    if (depth_ == 0)
      return fail(std::string(kind) + " where a JSON object is expected", kObjectHint);
    if (is_in_list()) return take_item(kind, text);
    if (depth_ != 1 || column_ == Column::other) return true;
    if (column_ == Column::weight) {
      if (text == nullptr)
        return fail("the column '" + schema_.weight_column + "' is " + kind + ", not a number",
                    "give the row a weight, or set bad_rows to skip");
      weight = *text;
      return true;
    }
    if (column_ == Column::label) {
      if (is_null) return true;
      if (text == nullptr)
        return fail("the label is " + std::string(kind), R"(write "label": "its label")");
      if (!text->empty()) row_.label = RowLabel{.items = {*text}};
      return true;
    }
    const std::string& name =
        column_ == Column::text ? schema_.text_column : schema_.text_pair_column;
    if (text == nullptr) {
      const bool is_list = std::string_view(kind) == "an array";
      return fail("the column '" + name + "' is " + kind + ", not a string",
                  is_null   ? "give the row a text, or set bad_rows to skip"
                  : is_list ? kTokensHint
                            : "write the value as a string, in quotes, or set bad_rows to skip");
    }
    if (column_ == Column::text && schema_.text_form == TextForm::words)
      return fail("the column '" + name + "' is a string, not a list of words", kWordsHint);
    (column_ == Column::text ? row_.text : row_.pair) = *text;
    return true;
  }

  const RowSchema& schema_;
  Row& row_;
  std::vector<std::string>* columns_;
  Column column_ = Column::other;
  int64_t depth_ = 0;
  bool has_weight_ = false;
};

class JsonReader final : public RowReader {
 public:
  JsonReader(const std::string& file, const RowSchema& schema, bool may_be_array, BadRowLog& log)
      : source_(file, io::Gzip::is_unpacked), schema_(schema), log_(log), array_(source_) {
    source_.begin_text();
    is_array_ = may_be_array && array_.begin();
  }

  bool next(Row& row) override {
    return next_good_row(log_, [&] {
      do {
        if (!(is_array_ ? read_element() : read_line())) return false;
      } while (line_.find_first_not_of(" \t") == std::string::npos);
      parse(row);
      return true;
    });
  }
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] int64_t bytes_read() const override { return source_.position(); }
  [[nodiscard]] int64_t total_bytes() const override { return source_.total_bytes(); }

 private:
  bool read_line() {
    ++line_number_;
    return read_row_line(source_, line_, schema_.affordable_bytes, place());
  }
  bool read_element() {
    if (!array_.next(line_, schema_.affordable_bytes)) return false;
    line_number_ = array_.line();
    return true;
  }
  [[nodiscard]] int64_t item() const { return is_array_ ? array_.number() : 0; }
  [[nodiscard]] std::string place() const {
    return place_of_row(source_.path(), line_number_, item());
  }

  void parse(Row& row) {
    check_text(line_, place());
    row.text.clear();
    row.words.clear();
    row.has_words = false;
    row.pair.clear();
    row.label.reset();
    row.line = line_number_;
    row.item = item();
    const bool is_first = columns_.empty();
    RowHandler handler(schema_, row, is_first ? &columns_ : nullptr);
    if (!io::read_json_events(line_, handler)) {
      if (is_first) columns_.clear();
      if (handler.is_array && is_first && !is_array_ && !is_list_row()) {
        throw Error(ErrorCode::bad_data, place(), handler.problem,
                    "name a file that is one array .json, or write one object a line: "
                    "jq -c '.[]' in.json > out.jsonl");
      }
      const bool is_of_lines = handler.hint == kLineHint;
      throw RowError(ErrorCode::bad_data, place(), handler.problem,
                     is_array_ && is_of_lines ? kElementHint : handler.hint);
    }
    check_columns(handler, is_first);
    if (!schema_.weight_column.empty()) {
      if (is_first && handler.weight.empty())
        throw missing_column(place(), schema_.weight_column, "weight_column", columns_);
      row.weight = parse_weight(handler.weight, schema_.weight_column, place());
    }
    const auto check = [&](const std::string& field) {
      if (field.find('\0') != std::string::npos) fail_nul();
    };
    check(row.text);
    check(row.pair);
    for (const std::string& word : row.words) check(word);
    if (!row.label) return;
    for (const std::string& item : row.label->items) check(item);
  }

  // ["a text", "a label"], and not the first line of a file that is one array of objects.
  [[nodiscard]] bool is_list_row() const {
    const size_t inner = line_.find_first_not_of(" \t", line_.find('[') + 1);
    return inner != std::string::npos && line_[inner] != '{';
  }

  [[noreturn]] void fail_nul() const {
    throw RowError(ErrorCode::bad_data, place(), "the text holds a NUL character (\\u0000)",
                   "remove it, or set bad_rows to skip");
  }

  void check_columns(const RowHandler& handler, bool is_first) {
    const bool lacks_pair = !schema_.text_pair_column.empty() && !handler.has_pair;
    if (handler.has_text && !lacks_pair) return;
    const std::string& column = handler.has_text ? schema_.text_pair_column : schema_.text_column;
    const char* key = handler.has_text ? "text_pair_column" : "text_column";
    // The first object without the column: the configuration is wrong, not a row.
    if (is_first && !handler.list_column.empty() && !handler.has_text) {
      throw Error(ErrorCode::bad_config, place(),
                  "there is no column '" + column + "', and '" + handler.list_column +
                      "' is a list; the columns are: " + list_columns(columns_),
                  kTokensHint);
    }
    if (is_first) throw missing_column(place(), column, key, columns_);
    std::vector<std::string> names;
    Row ignored;
    RowHandler again(schema_, ignored, &names);
    (void)io::read_json_events(line_, again);
    throw RowError(ErrorCode::bad_data, place(),
                   "there is no column '" + column + "'; the columns are: " + list_columns(names),
                   "add the column, or set bad_rows to skip");
  }

  io::TextFile source_;
  RowSchema schema_;
  BadRowLog& log_;
  JsonArray array_;
  bool is_array_ = false;
  std::string line_;  // or the element of the array
  int64_t line_number_ = 0;
  std::vector<std::string> columns_;
};

}  // namespace

std::unique_ptr<RowReader> open_json(const std::string& file, const RowSchema& schema,
                                     bool may_be_array, BadRowLog& log) {
  return std::make_unique<JsonReader>(file, schema, may_be_array, log);
}

}  // namespace snug::data
