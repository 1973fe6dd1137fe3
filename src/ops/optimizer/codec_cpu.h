// SPDX-License-Identifier: Apache-2.0
// Coding of states with vectors, the same to the bit as the plain version (optimizer_codec.h).
#pragma once

#include "ops/optimizer/optimizer_codec.h"

namespace snug {

/// Decodes and encodes whole blocks: kStateBlock numbers and codes. Numbers behind the end of a
/// tensor are zero.
struct StateCoder {
  StateForm form;
  void (*decode_block)(StateForm form, float scale, const uint8_t* codes, float* values) = nullptr;
  float (*encode_block)(StateForm form, const float* values, uint32_t dither,
                        uint8_t* codes) = nullptr;

  /// Numbers of at most a block; `values` has room for a whole one.
  void decode(float scale, const uint8_t* codes, int64_t count, float* values) const;
  [[nodiscard]] float encode(float* values, int64_t count, uint32_t dither, uint8_t* codes) const;
};
/// For this processor.
[[nodiscard]] StateCoder state_coder(StateForm form);

}  // namespace snug
