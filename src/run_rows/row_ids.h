// SPDX-License-Identifier: Apache-2.0
// Rows of files as ids, uncut: what a model would be fed.
#pragma once

#include <functional>
#include <vector>

#include "run_rows/run_data.h"

namespace snug::run_rows {

/// Those of test_file, in file order. Throws what reading rows throws; a bad row ends it.
void encode_rows(const RunConfig& config, const RunOptions& options,
                 const text::Tokenizer& tokenizer,
                 const std::function<void(const std::vector<int32_t>& ids)>& sink);

}  // namespace snug::run_rows
