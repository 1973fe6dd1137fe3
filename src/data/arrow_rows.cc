// SPDX-License-Identifier: Apache-2.0
// Rows of an Arrow file, as Hugging Face's datasets lie on the disk. Only the columns that are
// wanted are read, each from where it lies.
#include <cmath>
#include <memory>
#include <utility>

#include "base/numbers.h"
#include "base/utf8.h"
#include "data/arrow_column.h"
#include "data/class_names.h"
#include "data/source.h"
#include "io/arrow_file.h"

namespace snug::data {
namespace {

using io::ArrowKind;

constexpr size_t kMaxNamedFields = 32;
constexpr const char* kCastHint =
    "cast the column: dataset.cast_column, or table.set_column of PyArrow";

class ArrowReader final : public RowReader {
 public:
  ArrowReader(const std::string& file, const RowSchema& schema, BadRowLog& log)
      : file_(file), schema_(schema), log_(log) {
    for (const io::ArrowField& field : file_.fields()) {
      if (columns_.size() < kMaxNamedFields) columns_.push_back(clip_text(field.name, 64));
    }
    text_ = find(schema_.text_column, "text_column", true);
    check_text_column();
    if (!schema_.text_pair_column.empty()) {
      pair_ = find(schema_.text_pair_column, "text_pair_column", true);
      require_kind(pair_, pair_.column->field().kind == ArrowKind::text, "text");
    }
    if (!schema_.label_column.empty())
      label_ = find(schema_.label_column, "label_column", schema_.needs_label);
    check_label_column();
    if (label_.column && schema_.class_names) take_class_names();
    if (!schema_.weight_column.empty()) {
      weight_ = find(schema_.weight_column, "weight_column", true);
      require_kind(weight_, weight_.column->is_number(), "numbers");
    }
  }

  bool next(Row& row) override {
    return next_good_row(log_, [&] {
      while (at_ == batch_.rows) {
        if (!next_batch()) return false;
      }
      ++line_;
      read(at_++, row);
      return true;
    });
  }
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] int64_t bytes_read() const override {
    const int64_t bytes = file_.position() - batch_begin_;
    return batch_.rows == 0 ? file_.position()
                            : batch_begin_ + static_cast<int64_t>(static_cast<double>(bytes) *
                                                                  static_cast<double>(at_) /
                                                                  static_cast<double>(batch_.rows));
  }
  [[nodiscard]] int64_t total_bytes() const override { return file_.total_bytes(); }

 private:
  struct Wanted {
    size_t number = 0;
    std::unique_ptr<ArrowColumn> column;  // null: it is not there
  };

  [[nodiscard]] const std::string& path() const { return file_.file().path(); }
  [[nodiscard]] std::string place() const { return place_of_row(path(), line_, 0); }

  [[nodiscard]] Wanted find(const std::string& name, const char* key, bool is_needed) {
    Wanted found;
    const std::vector<io::ArrowField>& fields = file_.fields();
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].name != name) continue;
      if (found.column)
        throw Error(ErrorCode::bad_config, path(), "the column '" + name + "' is there twice",
                    "rename one of them");
      found = {i, std::make_unique<ArrowColumn>(fields[i])};
    }
    if (!found.column && is_needed) throw missing_column(path(), name, key, columns_);
    return found;
  }

  void require_kind(const Wanted& wanted, bool is_right, const char* what,
                    const char* hint = kCastHint) const {
    if (is_right) return;
    const io::ArrowField& field = wanted.column->field();
    throw Error(ErrorCode::bad_config, path(),
                "the column '" + field.name + "' is of the type " + field.type + ", not of " + what,
                hint);
  }
  void check_text_column() const {
    const io::ArrowField& field = text_.column->field();
    const bool is_words =
        field.kind == ArrowKind::list && field.children[0].kind == ArrowKind::text;
    if (schema_.text_form == TextForm::words)
      require_kind(text_, is_words, "lists of words",
                   "give the text as a list of words, or give --task classification --fresh_head "
                   "to learn labels of whole texts");
    if (schema_.text_form == TextForm::text)
      require_kind(text_, field.kind == ArrowKind::text, "text",
                   is_words ? kTokensHint : kCastHint);
    require_kind(text_, field.kind == ArrowKind::text || is_words, "text");
  }
  void check_label_column() {
    if (!label_.column) return;
    const auto is_plain = [](const io::ArrowField& field) {
      return field.kind == ArrowKind::text || field.kind == ArrowKind::integer ||
             field.kind == ArrowKind::real;
    };
    const io::ArrowField& field = label_.column->field();
    const bool is_right = is_plain(field) || field.kind == ArrowKind::boolean ||
                          field.kind == ArrowKind::null ||
                          (field.kind == ArrowKind::list && is_plain(field.children[0]));
    if (!is_right && !schema_.needs_label) {
      label_.column = nullptr;  // nobody reads it
      return;
    }
    require_kind(label_, is_right, "texts, numbers or lists of them");
  }

  void take_class_names() {
    const io::ArrowField& field = label_.column->field();
    const bool has_numbers =
        field.kind == ArrowKind::integer ||
        (field.kind == ArrowKind::list && field.children[0].kind == ArrowKind::integer);
    if (has_numbers) class_names_ = class_names(file_, schema_.label_column);
  }

  [[nodiscard]] bool next_batch() {
    if (batch_begin_ > 0) file_.file().release_cache(batch_begin_, file_.position() - batch_begin_);
    batch_begin_ = file_.position();
    at_ = 0;
    if (!file_.next(batch_)) {
      batch_.rows = 0;
      return false;
    }
    for (const Wanted* each : {&text_, &pair_, &label_, &weight_}) {
      if (each->column) each->column->open(file_.file(), batch_.columns[each->number]);
    }
    return true;
  }

  void read(int64_t at, Row& row) {
    row.text.clear();
    row.words.clear();
    row.has_words = text_.column->field().kind == ArrowKind::list;
    row.pair.clear();
    row.label.reset();
    row.line = line_;
    row.item = 0;
    require_value(*text_.column, at);
    if (row.has_words) {
      read_items(*text_.column, at, row.words);
    } else {
      read_text(*text_.column, at, row.text);
    }
    if (pair_.column) {
      require_value(*pair_.column, at);
      read_text(*pair_.column, at, row.pair);
    }
    if (weight_.column) row.weight = parse_weight(weight_text(at), schema_.weight_column, place());
    if (label_.column && !label_.column->is_null(at)) read_label(at, row);
  }

  void require_value(ArrowColumn& column, int64_t at) const {
    if (!column.is_null(at)) return;
    throw RowError(ErrorCode::bad_data, place(),
                   "the column '" + column.field().name + "' is null, not a string",
                   "give the row a text, or set bad_rows to skip");
  }
  void check_bytes(int64_t bytes) const {
    if (bytes > schema_.affordable_bytes && schema_.affordable_bytes < kMaxRowBytes)
      throw unaffordable_row(path(), schema_.affordable_bytes);
    if (bytes > kMaxRowBytes) throw row_too_long(place());
  }
  void read_text(ArrowColumn& column, int64_t at, std::string& out) const {
    const ArrowColumn::Range bytes = column.range(at);
    check_bytes(bytes.end - bytes.begin);
    column.read_text(bytes, out);
    check_text(out, place());
  }
  void read_items(ArrowColumn& list, int64_t at, std::vector<std::string>& out) const {
    const ArrowColumn::Range range = list.range(at);
    if (range.end - range.begin > kMaxListItems)
      throw RowError(ErrorCode::bad_data, place(),
                     "the column '" + list.field().name + "' is a list of more than " +
                         std::to_string(kMaxListItems) + " values",
                     "split the row, or set bad_rows to skip");
    int64_t bytes = 0;
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (list.items().is_null(i))
        throw RowError(ErrorCode::bad_data, place(),
                       "the column '" + list.field().name + "' holds null in its list",
                       "give a list of texts, or of numbers");
      out.emplace_back();
      if (list.items().field().kind != ArrowKind::text) continue;
      read_text(list.items(), i, out.back());
      bytes += static_cast<int64_t>(out.back().size());
      check_bytes(bytes);
    }
  }

  // NaN is nothing, as frames have it.
  [[nodiscard]] std::string weight_text(int64_t at) {
    ArrowColumn& column = *weight_.column;
    if (column.is_null(at)) return {};
    if (column.field().kind == ArrowKind::integer) return column.word(at);
    const double value = column.real(at);
    return std::isnan(value) ? std::string() : number_text(value);
  }

  void read_label(int64_t at, Row& row) {
    ArrowColumn& column = *label_.column;
    RowLabel label;
    if (column.field().kind == ArrowKind::list) {
      label.is_list = true;
      read_items(column, at, label.items);
      const int64_t first = column.range(at).begin;
      for (size_t i = 0; i < label.items.size() && column.items().is_number(); ++i)
        take_number(column.items(), first + static_cast<int64_t>(i), label, label.items[i]);
      row.label = std::move(label);
      return;
    }
    std::string item;
    if (column.field().kind == ArrowKind::text) {
      read_text(column, at, item);
    } else if (column.is_number()) {
      take_number(column, at, label, item);
    } else {
      item = column.word(at);
    }
    if (item.empty()) return;
    label.items.push_back(std::move(item));
    row.label = std::move(label);
  }

  // The text is empty where there is no number.
  void take_number(ArrowColumn& column, int64_t at, RowLabel& label, std::string& text) const {
    label.is_number = true;
    if (column.field().kind == ArrowKind::integer) {
      text = column.word(at);
      if (!class_names_.empty()) name_class(label, text);
      return;
    }
    const double value = column.real(at);
    if (std::isnan(value) && !label.is_list) return;
    if (!std::isfinite(value))
      throw RowError(ErrorCode::bad_data, place(),
                     "the label " + number_text(plain_nan(value)) + " is not finite",
                     "give the row a finite number, or set bad_rows to skip");
    text = number_text(value);
    label.has_fraction = label.has_fraction || std::trunc(value) != value;
  }

  // By itself -1 is no label: so datasets keep them back.
  void name_class(RowLabel& label, std::string& text) const {
    label.is_number = false;
    if (text == "-1" && !label.is_list) {
      text.clear();
      return;
    }
    const std::optional<int64_t> number = number_in<int64_t>(text);
    if (!number || *number < 0 || *number >= std::ssize(class_names_))
      throw RowError(ErrorCode::bad_data, place(),
                     "the label " + text + " is none of the " +
                         std::to_string(class_names_.size()) + " classes that the column '" +
                         schema_.label_column + "' names",
                     "give a number from 0 to " + std::to_string(class_names_.size() - 1) +
                         ", or set bad_rows to skip");
    text = class_names_[static_cast<size_t>(*number)];
  }

  io::ArrowFile file_;
  RowSchema schema_;
  BadRowLog& log_;
  std::vector<std::string> columns_;
  Wanted text_, pair_, label_, weight_;
  std::vector<std::string> class_names_;  // by number; empty: the labels are what they are
  io::ArrowBatch batch_;
  int64_t batch_begin_ = 0;
  int64_t at_ = 0;    // in the batch
  int64_t line_ = 0;  // in the file
};

}  // namespace

std::unique_ptr<RowReader> open_arrow(const std::string& file, const RowSchema& schema,
                                      BadRowLog& log) {
  return std::make_unique<ArrowReader>(file, schema, log);
}

}  // namespace snug::data
