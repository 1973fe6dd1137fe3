// SPDX-License-Identifier: Apache-2.0
// Micro-batches of tokens. A row's ids are read straight into its place.
#include "data/token_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/index_vector.h"

namespace snug::data {
namespace {

template <class T>
std::span<T> row_of(std::span<T> buffer, int64_t row, int64_t length) {
  if (buffer.empty()) return {};
  return buffer.subspan(static_cast<size_t>(row * length), static_cast<size_t>(length));
}

template <class T>
void check_room(std::span<T> buffer, int64_t elements) {
  SNUG_CHECK(buffer.empty() || buffer.size() >= static_cast<size_t>(elements),
             "a batch buffer is too small");
}

}  // namespace

void TokenCache::fill(const MicroBatch& batch, const BatchBuffers& buffers) const {
  const int64_t micro_batch = batch.size;
  const int64_t bucket_length = batch.bucket_length;
  SNUG_CHECK(batch.first_slot >= 0 && micro_batch >= 0 && bucket_length >= 1,
             "a micro-batch out of range");
  SNUG_CHECK(!buffers.input_ids.empty() || micro_batch == 0,
             "a micro-batch needs room for its ids");
  check_room(buffers.input_ids, micro_batch * bucket_length);
  check_room(buffers.token_type_ids, micro_batch * bucket_length);
  check_room(buffers.attention_mask, micro_batch * bucket_length);
  for (int64_t i = 0; i < micro_batch; ++i) {
    const int64_t slot = batch.first_slot + i;
    const std::span<int32_t> ids = row_of(buffers.input_ids, i, bucket_length);
    RowInfo row;  // a padding row: no tokens
    if (slot < static_cast<int64_t>(batch.rows.size()))
      row = read_row(IndexSpan(batch.rows)[slot], ids);
    std::fill(ids.begin() + row.length, ids.end(), batch.pad_id);
    if (!buffers.token_type_ids.empty()) {
      const std::span<int32_t> types = row_of(buffers.token_type_ids, i, bucket_length);
      std::fill(types.begin(), types.end(), 0);
      std::fill(types.begin() + row.first_segment, types.begin() + row.length, 1);
    }
    if (!buffers.attention_mask.empty()) {
      const std::span<uint8_t> mask = row_of(buffers.attention_mask, i, bucket_length);
      std::fill(mask.begin(), mask.begin() + row.length, uint8_t{1});
      std::fill(mask.begin() + row.length, mask.end(), uint8_t{0});
    }
  }
}

}  // namespace snug::data
