// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over any dimensions of a tensor, for the reduce ops, sum_to and bias gradients.
// The order of a sum is fixed by the shape (blocks in float, blocks joined in double), never by the
// number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "snug/types.h"

namespace snug {

/// A reduction with neighbouring dimensions of one kind merged. Most are (outer, reduced, inner)
/// with outer and inner kept; `dims` holds the general case.
struct Reduction {
  int64_t outer = 1;
  int64_t reduced = 1;
  int64_t inner = 1;
  bool is_general = false;
  Shape dims;                    // merged
  std::vector<bool> is_reduced;  // of dims, alternating
  int64_t outputs = 1;
};

/// `reduced[i]` says whether dimension i of `shape` is summed over.
[[nodiscard]] Reduction plan_reduction(const Shape& shape, const std::vector<bool>& reduced);
[[nodiscard]] int64_t reduction_scratch_bytes(const Reduction& plan);

/// dst = scale * sum of floating elements that are stored as `dtype`. An empty sum is 0.
void reduce_sum(int threads, const Reduction& plan, DType dtype, const std::byte* src, float* dst,
                double scale, std::byte* scratch) noexcept;

/// The same over the rows of a matrix, a piece of rows at a time: `groups` has a row for each
/// kRowsOfGroup rows, to which add_rows() adds rows in their order (a piece begins at a multiple of
/// kRowsOfTree, rows of one group come from one thread); then sum_groups() sums them. The bits of
/// reduce_sum().
inline constexpr int64_t kRowsOfTree = 8;
inline constexpr int64_t kRowsOfGroup = 128;
[[nodiscard]] bool is_summed_by_rows(const Reduction& plan);
[[nodiscard]] int64_t row_groups(const Reduction& plan);
/// `src`: row `first` and those behind it.
void add_rows(const Reduction& plan, DType dtype, const std::byte* src, int64_t first, int64_t rows,
              float* groups) noexcept;
void sum_groups(int threads, const Reduction& plan, const float* groups, float* dst,
                double scale) noexcept;

/// NaN wins. The reduced dimensions are not empty.
void reduce_max_f32(int threads, const Reduction& plan, const float* src, float* dst) noexcept;

/// Sum of squares in double, over blocks of kSquaresBlock; `scratch` holds one double a block.
inline constexpr int64_t kSquaresBlock = 16384;
[[nodiscard]] double sum_squares_f32(int threads, const float* src, int64_t count,
                                     double* scratch) noexcept;

}  // namespace snug
