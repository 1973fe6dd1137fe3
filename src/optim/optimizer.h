// SPDX-License-Identifier: Apache-2.0
// Optimizers as graph builders: given a parameter and its gradient, they append the update node in
// phase update and declare its states. What an optimizer is: ops/optimizer/optimizer_def.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/optimizer/optimizer_codec.h"
#include "ops/optimizer/optimizer_def.h"

namespace snug::optim {

/// An optimizer of the list with a value for each of its hyper-parameters.
struct Options {
  const Optimizer* optimizer = nullptr;
  HyperValues settings;
  double weight_decay = 0;
};
/// The defaults but for what is given. Throws Error{bad_config} at "optim" for an optimizer or a
/// hyper-parameter that does not exist, a value out of range, and values that do not go together.
[[nodiscard]] Options make_options(std::string_view optimizer, const HyperValues& given = {},
                                   double weight_decay = 0);

/// False for biases and the weights of normalisations: they do not decay (Hugging Face's rule, by
/// the name). Neither do other vectors.
[[nodiscard]] bool decays(const std::string& parameter);

struct NamedState {
  std::string name;
  TensorType type;
};
/// The states of a parameter of this shape: "m.P" and "v.P" of adamw, or with a codec (which
/// state_storage.h decides) "m.P.codes", "m.P.scales", "v.P.codes" and "v.P.scales". They start as
/// zeros.
[[nodiscard]] std::vector<NamedState> states_of(const Options& options,
                                                const std::string& parameter, const Shape& shape,
                                                std::optional<StateCodec> codec = std::nullopt);
inline constexpr const char* kCodesSuffix = ".codes";
inline constexpr const char* kScalesSuffix = ".scales";

/// How one parameter is updated.
struct UpdateForm {
  std::optional<double> weight_decay = {};  // of its group; unset: the options', where it decays
  std::optional<StateCodec> codec = {};     // of its states; unset: they are f32
  ValueId rng = kNone;                      // i64[3], which they need, and a weight in fewer bits
};
/// Appends the update of one parameter and declares its states. `hyper` is f32[4] (fed_values),
/// `coefficient` f32[] or kNone (append_clip). Returns the values that hold the new parameter and
/// states, in their own storages.
std::vector<ValueId> append_update(GraphBuilder& builder, ValueId parameter, ValueId gradient,
                                   ValueId hyper, ValueId coefficient, const Options& options,
                                   const UpdateForm& form = {});

/// What `hyper` holds in update number `step`, counted from 1.
[[nodiscard]] FedValues fed_values(const Options& options, double learning_rate, int64_t step);

struct Clip {
  ValueId norm = kNone;         // f32[]: the norm before clipping
  ValueId coefficient = kNone;  // f32[]
};
/// The sum of squares of a gradient times `scale` (f32[], what undoes the scale of the loss; kNone:
/// 1).
[[nodiscard]] ValueId append_squares(GraphBuilder& builder, ValueId gradient, ValueId scale);
/// The global norm of gradients of which these are the sums of squares, as
/// torch.nn.utils.clip_grad_norm_; max_norm 0 measures only. The coefficient is times `scale`. It
/// is NaN where a gradient is not finite, and then skips the update.
[[nodiscard]] Clip append_clip(GraphBuilder& builder, std::span<const ValueId> squares,
                               double max_norm, ValueId scale = kNone);

}  // namespace snug::optim
