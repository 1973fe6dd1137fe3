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
/// NaN wins. The reduced dimensions are not empty.
void reduce_max_f32(int threads, const Reduction& plan, const float* src, float* dst) noexcept;

/// Sum of squares in double, over blocks of kSquaresBlock; `scratch` holds one double a block.
inline constexpr int64_t kSquaresBlock = 16384;
[[nodiscard]] double sum_squares_f32(int threads, const float* src, int64_t count,
                                     double* scratch) noexcept;

}  // namespace snug
