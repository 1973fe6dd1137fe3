// SPDX-License-Identifier: Apache-2.0
// The seeded split: a row is held out when its place in a keyed permutation is among the first
// ones.
#include "data/split.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "snug/error.h"

namespace snug::data {

Part Part::all(int64_t rows) {
  Part part;
  part.size_ = rows;
  return part;
}

Split split_rows(int64_t rows, double validation_split, uint64_t seed) {
  SNUG_CHECK(rows >= 0, "negative number of rows");
  if (!(validation_split >= 0 && validation_split < 1)) {
    throw Error(ErrorCode::bad_config, "validation_split",
                "the share of rows held out must be at least 0 and below 1",
                "set validation_split to, for example, 0.05");
  }
  Split split;
  if (validation_split == 0) {
    split.train = Part::all(rows);
    return split;
  }
  if (rows < 2) {
    throw Error(ErrorCode::bad_data, "validation_split",
                std::to_string(rows) + " usable training row(s) cannot be split in two",
                "give more rows, or set validation_split to 0");
  }
  const auto wanted =
      static_cast<int64_t>(std::llround(static_cast<double>(rows) * validation_split));
  const int64_t held_out = std::clamp<int64_t>(wanted, 1, rows - 1);
  const Permutation order(rows, seed, split_stream());
  split.validation.size_ = held_out;
  split.validation.order_ = order;
  split.train.begin_ = held_out;
  split.train.size_ = rows - held_out;
  split.train.order_ = order;
  return split;
}

}  // namespace snug::data
