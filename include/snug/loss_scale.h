// SPDX-License-Identifier: Apache-2.0
// Where the scale of a loss stands (SessionOptions::loss_scale).
#pragma once

#include <cstdint>

namespace snug {

struct LossScale {
  double value = 1;           // an f32
  int64_t clean_updates = 0;  // in a row since the scale changed
  int64_t overflows = 0;      // in a row since the scale changed
};

}  // namespace snug
