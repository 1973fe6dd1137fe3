// SPDX-License-Identifier: Apache-2.0
// The seeded split: a row is held out when its place in a keyed permutation is among the first
// ones; of all rows, or of those of its label.
#include "data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr int64_t kStopRows = 4096;

/// Rows to hold out of so many, for a share above 0.
int64_t held_out_of(int64_t rows, double validation_split) {
  if (rows < 2) {
    throw Error(ErrorCode::bad_data, "validation_split",
                std::to_string(rows) + " usable training row(s) cannot be split in two",
                "give more rows, or set validation_split to 0");
  }
  const auto wanted =
      static_cast<int64_t>(std::llround(static_cast<double>(rows) * validation_split));
  return std::clamp<int64_t>(wanted, 1, rows - 1);
}

void check_share(int64_t rows, double validation_split) {
  SNUG_CHECK(rows >= 0, "negative number of rows");
  if (validation_split >= 0 && validation_split < 1) return;
  throw Error(ErrorCode::bad_config, "validation_split",
              "the share of rows held out must be at least 0 and below 1",
              "set validation_split to, for example, 0.05");
}

Split undivided(int64_t rows) {
  Split split;
  split.train = Subset::all(rows);
  return split;
}

/// How many rows of each label are held out: its share, rounded so that all are `held_out`, but
/// never all rows of one.
IndexVector<int64_t> held_out_by_label(const IndexVector<int64_t>& counts, double share,
                                       int64_t held_out) {
  IndexVector<int64_t> out(counts.size());
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto exact = [&](size_t label) { return share * static_cast<double>(counts[label]); };
  const auto most = [&](size_t label) { return std::max<int64_t>(counts[label] - 1, 0); };
  for (size_t label = 0; label < counts.size(); ++label) {
    out[label] = std::min(static_cast<int64_t>(std::floor(exact(label))), most(label));
    held_out -= out[label];
  }
  const auto remainder = [&](size_t label) { return exact(label) - std::floor(exact(label)); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainder(a) > remainder(b); });
  for (bool adds = true; adds && held_out > 0;) {
    adds = false;
    for (const size_t label : order) {
      if (held_out == 0) break;
      if (out[label] >= most(label)) continue;
      ++out[label];
      --held_out;
      adds = true;
    }
  }
  return out;
}

}  // namespace

Subset Subset::all(int64_t rows) {
  Subset part;
  part.size_ = rows;
  return part;
}

void Subset::rows(std::span<int64_t> members) const {
  if (marks_) {
    for (int64_t& each : members) each = row(each);
    return;
  }
  for (int64_t& each : members) each += begin_;
  if (order_) order_->invert(members);
}

Split split_rows(int64_t rows, double validation_split, uint64_t seed) {
  check_share(rows, validation_split);
  if (validation_split == 0) return undivided(rows);
  Split split;
  const int64_t held_out = held_out_of(rows, validation_split);
  const Permutation order(rows, seed, split_stream());
  split.validation.size_ = held_out;
  split.validation.order_ = order;
  split.train.begin_ = held_out;
  split.train.size_ = rows - held_out;
  split.train.order_ = order;
  return split;
}

Split split_by_label(int64_t rows, const std::function<int32_t(int64_t row)>& label_of,
                     double validation_split, uint64_t seed) {
  check_share(rows, validation_split);
  if (validation_split == 0) return undivided(rows);
  Split split;
  const int64_t wanted = held_out_of(rows, validation_split);
  IndexVector<int64_t> counts;
  for (int64_t row = 0; row < rows; ++row) {
    if (row % kStopRows == 0) stop_point();
    const int32_t label = label_of(row);
    if (std::cmp_greater_equal(label, counts.size())) counts.resize(label + 1);
    ++counts[label];
  }
  const IndexVector<int64_t> held_out = held_out_by_label(counts, validation_split, wanted);
  std::vector<Permutation> orders;
  for (size_t label = 0; label < counts.size(); ++label)
    orders.emplace_back(counts[label], seed, split_stream_of_label(static_cast<int32_t>(label)));
  auto marks = std::make_shared<RowMarks>(rows);
  IndexVector<int64_t> seen(counts.size());
  for (int64_t row = 0; row < rows; ++row) {
    if (row % kStopRows == 0) stop_point();
    const int32_t label = label_of(row);
    const int64_t place = orders[static_cast<size_t>(label)](seen[label]++);
    if (place < held_out[label]) marks->mark(row);
  }
  marks->finish();
  if (marks->marked() == 0)
    throw Error(ErrorCode::bad_data, "stratify",
                "every label has one row: none can be held out and leave a row to train on",
                "omit stratify, or set validation_split to 0");
  split.validation.size_ = marks->marked();
  split.validation.is_marked_ = true;
  split.train.size_ = rows - marks->marked();
  split.validation.marks_ = split.train.marks_ = std::move(marks);
  return split;
}

}  // namespace snug::data
