// SPDX-License-Identifier: Apache-2.0
// What the kernels of rows by id and of their sums have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "base/threads.h"

namespace snug {

inline constexpr int64_t kWorthAThreadElements = 8192;
inline constexpr int64_t kCacheLineFloats = 16;

/// V rows of the table, H columns, N ids.
struct Lookup {
  int64_t rows = 0;   // V
  int64_t width = 0;  // H
  int64_t count = 0;  // N
};

[[nodiscard]] inline bool ids_are_valid(const Lookup& lookup, const int32_t* ids) {
  bool valid = true;
  for (int64_t i = 0; i < lookup.count; ++i) valid &= ids[i] >= 0 && ids[i] < lookup.rows;
  return valid;
}

inline void clear_rows(int threads, int64_t elements, float* rows) {
  parallel_for(threads, elements, kWorthAThreadElements, [&](int64_t begin, int64_t end) {
    std::memset(rows + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

/// Numbers the rows that ids name and that have none (0) yet from `known` + 1 on, in the order in
/// which they first occur, and returns the last number.
inline int32_t number_rows(const Lookup& lookup, const int32_t* ids, int32_t known,
                           int32_t* row_of) {
  for (int64_t i = 0; i < lookup.count; ++i) {
    if (row_of[ids[i]] == 0) row_of[ids[i]] = ++known;
  }
  return known;
}

/// The inputs of a row-sparse sum, and its outputs: rows, row_of, count.
inline constexpr size_t kSumInputs = 3;

/// Numbers the rows of a row-sparse sum of `rows` rows for ids that are valid. Takes over what is
/// not overwritten in place. An error where the sum has too few rows, or what is there is none.
[[nodiscard]] ErrorCode number_rows_of_sum(const Lookup& lookup, int64_t rows,
                                           const Launch& launch);

[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum(const NodeSpec& spec,
                                                           const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum_grad(const NodeSpec& spec,
                                                                const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum_grad_rows(const NodeSpec& spec,
                                                                     const CpuContext& context);
[[nodiscard]] int64_t embedding_sum_grad_rows_scratch(const NodeSpec& spec,
                                                      const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum_grad_accumulate(
    const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum_grad_rows_accumulate(
    const NodeSpec& spec, const CpuContext& context);
[[nodiscard]] int64_t embedding_sum_grad_rows_accumulate_scratch(const NodeSpec& spec,
                                                                 const CpuContext& context);
[[nodiscard]] std::unique_ptr<Kernel> create_embedding_sum_grad_weights(const NodeSpec& spec,
                                                                        const CpuContext& context);

}  // namespace snug
