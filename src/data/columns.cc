// SPDX-License-Identifier: Apache-2.0
#include "data/columns.h"

#include "base/check.h"
#include "base/utf8.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr size_t kMostColumns = 16;

void read_one_label(const Row& row, const EncodedRow&, const std::string& where,
                    std::span<ColumnDraft> columns) {
  if (!row.label) return;
  const RowLabel& label = *row.label;
  if (label.is_list)
    throw Error(ErrorCode::bad_data, where, "the label is a list; a row has one class",
                R"(write "label": "its label", or set task to one that takes lists)");
  if (label.has_fraction)
    throw Error(ErrorCode::bad_data, where,
                "the label " + clip_text(label.items.front(), 40) + " is not an integer",
                "give every row the name or number of a class, or set task to regression");
  columns[0].names.push_back(label.items.front());
}

}  // namespace

const RowForm& one_label() {
  static const RowForm form{.name = "one label",
                            .has_words = false,
                            .columns = {{.name = "label"}},
                            .read = read_one_label};
  return form;
}

void RowColumns::reserve(int64_t values) {
  columns_.reserve(kMostColumns);
  integers_.reserve(static_cast<size_t>(values));
  reals_.reserve(static_cast<size_t>(values));
}

void RowColumns::clear() {
  columns_.clear();
  integers_.clear();
  reals_.clear();
}

std::span<int32_t> RowColumns::add_integers(int64_t count) {
  const Range range{
      .is_real = false, .begin = integers_.size(), .count = static_cast<size_t>(count)};
  integers_.resize(range.begin + range.count);
  columns_.push_back(range);
  return std::span(integers_).subspan(range.begin, range.count);
}

std::span<float> RowColumns::add_reals(int64_t count) {
  const Range range{.is_real = true, .begin = reals_.size(), .count = static_cast<size_t>(count)};
  reals_.resize(range.begin + range.count);
  columns_.push_back(range);
  return std::span(reals_).subspan(range.begin, range.count);
}

std::span<const int32_t> RowColumns::integers(size_t column) const {
  const Range& range = columns_.at(column);
  SNUG_CHECK(!range.is_real, "a column of reals");
  return std::span(integers_).subspan(range.begin, range.count);
}

std::span<int32_t> RowColumns::edit_integers(size_t column) {
  const Range& range = columns_.at(column);
  SNUG_CHECK(!range.is_real, "a column of reals");
  return std::span(integers_).subspan(range.begin, range.count);
}

std::span<const float> RowColumns::reals(size_t column) const {
  const Range& range = columns_.at(column);
  SNUG_CHECK(range.is_real, "a column of integers");
  return std::span(reals_).subspan(range.begin, range.count);
}

}  // namespace snug::data
