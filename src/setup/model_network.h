// SPDX-License-Identifier: Apache-2.0
// A model with the head and loss of its task, as a network.
#pragma once

#include "programs/network_def.h"
#include "setup/model.h"

namespace snug::train {

/// As planning and training want it; holds a copy of what it needs.
[[nodiscard]] NetworkDef network_of(const Model& model);

}  // namespace snug::train
