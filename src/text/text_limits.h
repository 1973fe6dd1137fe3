// SPDX-License-Identifier: Apache-2.0
// What a folder keeps of how its texts became rows of limited length.
#pragma once

#include <cstdint>
#include <string>

namespace snug::text {

/// Fields of tokenizer_config.json; those called snug_ are Snug's own, which other programs ignore.
struct TextLimits {
  int64_t max_length = 0;  ///< model_max_length, in tokens; 0: not said
  std::string overlong;  ///< snug_overlong: "head_tail" or "window"; "tail": truncation_side left;
                         ///< empty: cut at the end
  int64_t stride = 0;    ///< snug_stride: tokens that two windows share
  friend bool operator==(const TextLimits&, const TextLimits&) = default;
};

}  // namespace snug::text
