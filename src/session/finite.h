// SPDX-License-Identifier: Apache-2.0
// Looks for infinities and NaN in what a run holds.
#pragma once

#include <optional>

#include "base/finite.h"
#include "session/engine.h"

namespace snug::session {

/// The first weight, buffer or optimizer state with an element that is not finite, in order of
/// name.
[[nodiscard]] std::optional<NotFinite> find_not_finite(const Engine& engine);

}  // namespace snug::session
