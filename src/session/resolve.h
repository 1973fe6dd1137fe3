// SPDX-License-Identifier: Apache-2.0
// A TrainSpec, resolved: all that its words and switches stand for, once, for planning, updates,
// explanations and lists of tensors alike.
#pragma once

#include "compile/changes.h"
#include "compile/fusion_levels.h"
#include "compile/recipe.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"
#include "snug/train_spec.h"

namespace snug::session {

struct ResolvedSpec {
  TrainSpec spec;
  compile::Recipe recipe;
  optim::Schedule schedule;
  optim::LossScaleRule loss_scale;
  compile::ForwardChanges changes;  // adapters, weights in fewer bits, mixed precision
  compile::FusionLevels fusion;
};

/// Throws Error{bad_config} by option for words that mean nothing and switches that exclude each
/// other.
[[nodiscard]] ResolvedSpec resolve(const TrainSpec& spec);
/// The same; also throws for numbers out of their range, sizes that do not go together and options
/// that would change nothing.
[[nodiscard]] ResolvedSpec resolve_checked(const TrainSpec& spec);

}  // namespace snug::session
