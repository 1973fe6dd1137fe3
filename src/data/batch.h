// SPDX-License-Identifier: Apache-2.0
// Fills the caller's memory with one micro-batch of a global batch. Allocates nothing.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_cache.h"

namespace snug::data {

// m: rows of the micro-batch, T: bucket length
struct BatchBuffers {
  std::span<int32_t> input_ids;       // (m, T)
  std::span<int32_t> token_type_ids;  // (m, T)
  std::span<uint8_t> attention_mask;  // (m, T), 1 for a token
  std::span<int32_t> labels;          // (m)
  std::span<float> row_weights;       // (m), 1 for a labelled row, else 0
};

/// Fills slots [first_slot, first_slot + micro_batch) of the global batch `rows`. Slots past its
/// end become padding rows: pad ids, type 0, mask 0 everywhere, label kIgnoredLabel, weight 0. A
/// buffer may be empty: then it is not filled. Throws what TokenCache::read_row throws.
void fill_micro_batch(const TokenCache& cache, std::span<const int64_t> rows, int64_t first_slot,
                      int64_t micro_batch, int64_t bucket_length, int32_t pad_id,
                      const BatchBuffers& buffers);

}  // namespace snug::data
