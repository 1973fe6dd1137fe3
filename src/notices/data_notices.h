// SPDX-License-Identifier: Apache-2.0
// What a run says of its data before it begins: what the labels are, which rows are left out or are
// rarely what was meant.
#pragma once

#include <string>
#include <vector>

#include "data/token_cache.h"
#include "notices/say.h"
#include "snug/run.h"

namespace snug::notices {

/// How the labels of `file` became ids; empty where they are its own.
[[nodiscard]] std::string label_notice(const std::string& file, const data::Labels& labels,
                                       data::LabelSource source);
struct RowUse {
  int64_t around = 0;         // tokens around a text
  bool is_predicted = false;  // what cannot be read has a line all the same
};
/// Rows that are left out or cut, tokens that the vocabulary does not have, texts in which there is
/// nothing to see, quotes that the file's kind does not have.
[[nodiscard]] std::vector<Warning> row_warnings(const std::string& file,
                                                const data::DataReport& report,
                                                const RunConfig& config, const RowUse& use);
}  // namespace snug::notices
