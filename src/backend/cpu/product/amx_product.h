// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 on tiles: dst (+)= op(a) op(b) (+ bias), summed in f32, dst in f32 or
// bf16. Knows no ops.
//
// An element of dst is one chain over K: begun with zero or with what dst holds, it takes the sum
// of 32 products after another, which TDPBF16PS adds up in an order of its own, and which begins at
// a multiple of 32; zeros fill the last. Every blocking cuts K at such multiples only and keeps
// sums in f32 between its cuts. So the bits do not depend on blocks, forms or threads, nor on what
// other rows and columns there are, nor on where K is cut into products that accumulate in f32, as
// long as that is at multiples of 32. As the instruction does, numbers below 2^-126 count as zero.
#pragma once

#include <cstddef>

#include "backend/cpu/product/amx_blocking.h"

namespace snug {

struct AmxProductLaunch {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const float* bias = nullptr;  // added to each row; may be null
  std::byte* dst = nullptr;
  std::byte* scratch = nullptr;  // from a multiple of 64 on
};

/// A product, cut once for a number of threads. Plain data: cheap to copy. Runs where has_amx().
/// Where M, N or K is zero it computes nothing.
class AmxProduct {
 public:
  AmxProduct(const AmxProductSpec& spec, int threads);
  [[nodiscard]] int64_t scratch_bytes() const;
  void run(const AmxProductLaunch& launch) const noexcept;

 private:
  [[nodiscard]] int parts() const;

  AmxProductSpec spec_;
  AmxBlocking blocking_;
};

}  // namespace snug
