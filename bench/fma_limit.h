// SPDX-License-Identifier: Apache-2.0
// The arithmetic limit of this processor: fused multiply-adds on f32 registers only, on so many
// threads at once. Nothing that multiplies matrices in f32 with the same instructions is faster.
#pragma once

#include <optional>
#include <string_view>

namespace snug {

/// FLOP/s with the registers of "avx2" or "avx512"; nothing where this processor has none.
[[nodiscard]] std::optional<double> fma_limit(std::string_view isa, int threads, double seconds);

}  // namespace snug
