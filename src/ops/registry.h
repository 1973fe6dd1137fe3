// SPDX-License-Identifier: Apache-2.0
// All ops of the program. Built from the one list in ops.cmake; immutable after the first call.
#pragma once

#include <span>

#include "graph/op_def.h"

namespace snug {

[[nodiscard]] const OpRegistry& op_registry();

}  // namespace snug
