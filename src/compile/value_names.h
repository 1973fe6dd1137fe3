// SPDX-License-Identifier: Apache-2.0
// How the values of a run's programs are called beside the network's own: no network gives one of
// these names away.
#pragma once

#include <cstddef>
#include <string>

namespace snug::compile {

inline constexpr const char* kLossName = "loss";           // f32[]: output, a micro-batch's share
inline constexpr const char* kHyperName = "hyper";         // f32[4]: optim::fed_values
inline constexpr const char* kGradNormName = "grad_norm";  // f32[]: output
inline constexpr const char* kGradientPrefix = "grad.";    // state of an accumulated gradient
// Where the loss is scaled: f32[], what the backward part begins with, and what undoes it. Names
// of values that are fed stay short: looking one up allocates nothing then.
inline constexpr const char* kLossScaleName = "loss_scale";
inline constexpr const char* kLossUnscaleName = "loss_unscale";
// Scalars of an update in two passes, f32[] each: what the first finds gradients are multiplied
// with (output), and what the second is fed.
inline constexpr const char* kFoundFactorName = "found_factor";
inline constexpr const char* kClipFactorName = "clip_factor";
inline constexpr const char* kKeptBufferPrefix = "kept_buffer.";

/// What is fed to the parameters with this rate (optim::ParameterGroups): kHyperName, then
/// "hyper.1" and so on.
[[nodiscard]] inline std::string hyper_name(size_t rate) {
  return rate == 0 ? kHyperName : kHyperName + ("." + std::to_string(rate));
}

}  // namespace snug::compile
