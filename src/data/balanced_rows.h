// SPDX-License-Identifier: Apache-2.0
// Rows drawn with replacement so that every class is as likely as any other: what PyTorch's
// WeightedRandomSampler does with one over the class's rows as weights. A draw is a pure function
// of the rows, the seed, the epoch and its number. Rows by class lie in a file, so that memory
// grows with the classes only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/index_vector.h"
#include "data/split.h"
#include "io/file.h"

namespace snug::data {

class BalancedRows {
 public:
  /// The rows of a part, by what `label_of` says, which is below `labels`. `scratch` is created and
  /// has no name from then on.
  BalancedRows(const Subset& part, int64_t labels,
               const std::function<int32_t(int64_t row)>& label_of, uint64_t seed,
               const std::string& scratch);

  /// Draw `number` of an epoch: a class that has rows, then one of these. Allocates nothing.
  [[nodiscard]] int64_t row(int64_t epoch, int64_t number) const;

 private:
  struct Class {
    int64_t begin = 0;  // in the file, in rows
    int64_t rows = 0;
  };

  io::File file_;
  uint64_t seed_;
  std::vector<Class> classes_;  // that have rows
};

}  // namespace snug::data
