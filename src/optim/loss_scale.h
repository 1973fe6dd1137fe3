// SPDX-License-Identifier: Apache-2.0
// Loss scaling: the backward pass begins with a scale instead of 1, so that gradients keep clear of
// the smallest numbers of a narrow type. How the scale moves from update to update is a pure
// function of what it was and of whether gradients overflowed.
#pragma once

#include <cstdint>
#include <string>

#include "snug/loss_scale.h"

namespace snug::optim {

enum class LossScaling : uint8_t { none, constant, dynamic };

/// The defaults are torch.amp.GradScaler's.
struct LossScaleRule {
  LossScaling scaling = LossScaling::none;
  double initial = 1;
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;  // updates in a row without overflow
  int64_t backoff_interval = 1;    // overflows in a row
  double least = 0;
};

/// "none", "dynamic" (GradScaler's), "dynamic_paddle" (Paddle's, whose least scale is 1) or a
/// number; "auto" is none. `least` 0: the rule's own floor. Throws Error{bad_config} at
/// "loss_scale" or "loss_scale_min".
[[nodiscard]] LossScaleRule make_loss_scale(const std::string& word, double least = 0);

[[nodiscard]] LossScale initial_scale(const LossScaleRule& rule);
/// Behind an update, or one that was skipped because gradients overflowed. A scale that would grow
/// to infinity stays.
[[nodiscard]] LossScale next_scale(const LossScaleRule& rule, const LossScale& scale,
                                   bool has_overflowed);
/// False where an overflow has no smaller scale to try.
[[nodiscard]] bool may_overflow(const LossScaleRule& rule, const LossScale& scale);

}  // namespace snug::optim
