// SPDX-License-Identifier: Apache-2.0
// The nodes that are run to learn the rates of this machine: shapes that networks have, small
// enough for the measurement's memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/measure_profile.h"
#include "snug/attrs.h"
#include "snug/types.h"

namespace snug {

/// One node. Probes of one rate_kind() are fitted together.
struct RateProbe {
  std::string op;
  std::vector<std::optional<TensorType>> inputs;
  Attrs attrs = {};
  RateBasis basis = RateBasis::bytes;
  int64_t ids = 0;  // integer inputs are random numbers below it
};

[[nodiscard]] std::vector<RateProbe> rate_probes();

}  // namespace snug
