// SPDX-License-Identifier: Apache-2.0
// A network that stores and computes in 16 bits where that is safe (compile/mixed_precision.h): its
// forward part is rewritten as it is built, so that gradients, plans and evaluation follow.
#pragma once

#include "compile/mixed_precision.h"
#include "compile/network_def.h"

namespace snug::train {

struct Precision {
  MixedPrecision training;
  MixedPrecision evaluation;  // and prediction
};

[[nodiscard]] NetworkDef with_precision(NetworkDef network, const Precision& precision);

}  // namespace snug::train
