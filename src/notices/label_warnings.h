// SPDX-License-Identifier: Apache-2.0
// What is rarely meant of the labels of a file: known before a run begins, and said.
#pragma once

#include <string>
#include <vector>

#include "data/label_map.h"
#include "snug/run.h"

namespace snug::notices {

[[nodiscard]] int64_t sum_of(const std::vector<int64_t>& counts);

/// One label alone; names that differ only in case, blanks, Unicode form, quotes or the spelling of
/// a number; a class that is called as what has none ("-1", "NA"). `counts`: by label id.
[[nodiscard]] std::vector<Warning> label_warnings(const std::string& file,
                                                  const data::Labels& labels,
                                                  const std::vector<int64_t>& counts);

}  // namespace snug::notices
