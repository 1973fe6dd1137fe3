// SPDX-License-Identifier: Apache-2.0
// The list of optimizers, in the order of ops.cmake.
#pragma once

#include <string_view>
#include <vector>

#include "ops/optimizer/optimizer_def.h"

namespace snug {

[[nodiscard]] const std::vector<const Optimizer*>& optimizers();
/// Null where there is none.
[[nodiscard]] const Optimizer* find_optimizer(std::string_view name);

}  // namespace snug
