// SPDX-License-Identifier: Apache-2.0
// The part of the budget that is neither resident values nor arena: code, libraries, stacks,
// compiled kernels, tokenizer, tables. A reservation by formula, so that `plan` and `train` say the
// same; tests hold the process to it.
#pragma once

#include <cstdint>

namespace snug::train {

struct ProcessNeeds {
  int64_t vocab_size = 0;
  int64_t program_parts = 0;  // over all buckets
  int64_t buckets = 1;
  int64_t global_batch = 0;
  int threads = 1;
};

/// What the program itself holds while it prepares data: no kernels, no graph yet.
inline constexpr int64_t kPreparationBytes = int64_t{40} << 20;

/// A multiple of a page.
[[nodiscard]] int64_t process_reservation(const ProcessNeeds& needs);

}  // namespace snug::train
