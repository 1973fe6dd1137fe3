// SPDX-License-Identifier: Apache-2.0
// The arithmetic limit of this processor: fused multiply-adds on f32 registers only, or products of
// bf16 on tiles only, on so many threads at once. Nothing that multiplies matrices with the same
// instructions is faster.
#pragma once

#include <optional>
#include <string_view>

namespace snug {

/// FLOP/s with the registers of "avx2" or "avx512", or the tiles of "amx"; nothing where this
/// processor has none, or the system or a limit on instructions does not permit tiles.
[[nodiscard]] std::optional<double> fma_limit(std::string_view isa, int threads, double seconds);

}  // namespace snug
