// SPDX-License-Identifier: Apache-2.0
// Ops of a caller's own: pure ones, one that draws, one that couples its rows and says so, and one
// that counts its runs, which none may.
#pragma once

#include <memory>
#include <vector>

#include "snug/custom_op.h"

namespace snug::odd {

[[nodiscard]] std::vector<std::shared_ptr<const CustomOp>> own_ops();

}  // namespace snug::odd
