// SPDX-License-Identifier: Apache-2.0
// Optimizers as graph builders: given a parameter and its gradient, they append the update node in
// phase update and declare its states. Formulas: ops/optimizer/optimizer.h (those of
// torch.optim.AdamW and torch.optim.SGD).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace snug::optim {

enum class Algorithm : uint8_t { adamw, sgd };

/// Defaults are those of torch and Hugging Face.
struct Options {
  Algorithm algorithm = Algorithm::adamw;
  double beta1 = 0.9;  // of adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;  // of sgd; 0: no state
  bool nesterov = false;
  double weight_decay = 0;
};

/// False for biases and the weights of normalisations: they do not decay (Hugging Face's rule, by
/// the name). Neither do other vectors.
[[nodiscard]] bool decays(const std::string& parameter);

/// The names of a parameter's states: "m.P", "v.P" of adamw, "momentum.P" of sgd with momentum.
/// They start as zeros and have the parameter's type.
[[nodiscard]] std::vector<std::string> state_names(const Options& options,
                                                   const std::string& parameter);

/// Appends the update of one parameter and declares its states. `hyper` is f32[4] (hyper_values),
/// `coefficient` f32[] or kNone (append_clip). Returns the values that hold the new parameter and
/// states, in their own storages.
std::vector<ValueId> append_update(GraphBuilder& builder, ValueId parameter, ValueId gradient,
                                   ValueId hyper, ValueId coefficient, const Options& options);

/// What `hyper` holds in update number `step` (counted from 1): learning rate, 1 - beta1^t, 1 -
/// beta2^t, 0.
[[nodiscard]] std::array<double, 4> hyper_values(const Options& options, double learning_rate,
                                                 int64_t step);

struct Clip {
  ValueId norm = kNone;         // f32[]: the norm before clipping
  ValueId coefficient = kNone;  // f32[]
};
/// The global norm of all gradients, as torch.nn.utils.clip_grad_norm_; max_norm 0 measures only
/// (coefficient 1).
[[nodiscard]] Clip append_clip(GraphBuilder& builder, std::span<const ValueId> gradients,
                               double max_norm);

}  // namespace snug::optim
