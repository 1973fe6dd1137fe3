// SPDX-License-Identifier: Apache-2.0
// The graphs of a run, after all passes. One training program a length bucket; with more than one
// micro-batch it ends in accumulation and a second program, run once an update, clips and updates.
#pragma once

#include <string>
#include <vector>

#include "compile/network_def.h"
#include "compile/pipeline.h"
#include "compile/recipe.h"

namespace snug::train {

/// A micro-batch: its rows, and the lengths that they are padded to.
struct BatchShape {
  int64_t rows = 0;
  Lengths lengths = {};
};

// Names of values beside the network's own: no network gives one of them away.
inline constexpr const char* kLossName = "loss";           // f32[]: output, a micro-batch's share
inline constexpr const char* kHyperName = "hyper";         // f32[4]: optim::fed_values
inline constexpr const char* kGradNormName = "grad_norm";  // f32[]: output
inline constexpr const char* kGradientPrefix = "grad.";    // state of an accumulated gradient
// Where the loss is scaled: f32[], what the backward part begins with, and what undoes it. Names
// of values that are fed stay short: looking one up allocates nothing then.
inline constexpr const char* kLossScaleName = "loss_scale";
inline constexpr const char* kLossUnscaleName = "loss_unscale";
// Of an update in two passes, f32[] each: what the first finds gradients are multiplied with
// (output), and what the second is fed.
inline constexpr const char* kFoundFactorName = "found_factor";
inline constexpr const char* kClipFactorName = "clip_factor";
inline constexpr const char* kKeptBufferPrefix = "kept_buffer.";

/// The stages, in order: forward (the network), backward (with accumulation or updates), the passes
/// of the pipeline, and the prologue taken out where the program accumulates. `hooks` is told each.
/// Forward, backward, and then either accumulation into the "grad." states (where an update has
/// more than one micro-batch) or clipping and update.
[[nodiscard]] Graph build_train_graph(const NetworkDef& network, const Recipe& recipe,
                                      const BatchShape& shape, int64_t micro_batches,
                                      const PipelineHooks& hooks = {});

/// What the programs of an update with more than one micro-batch share, made once an update from
/// the weights (Phase::prologue). Without nodes where the network has no such part; with one
/// micro-batch it is a part of the training program.
[[nodiscard]] Graph build_prologue_graph(const NetworkDef& network, const Recipe& recipe,
                                         const Lengths& longest);
/// Whether a program reads what the prologue makes.
[[nodiscard]] bool reads_prologue(const Graph& graph);

/// Norm, clipping, update and zeroing of the accumulated gradients.
[[nodiscard]] Graph build_update_graph(const NetworkDef& network, const Recipe& recipe);

/// Places for what the buffers that a training program moves were before an update that may be
/// skipped behind its forward part; empty where none is.
[[nodiscard]] Graph kept_buffers(const Graph& train, const Recipe& recipe);

/// Whether a prologue makes all that a program takes to be there. Evaluation may have types of its
/// own, and packed weights are training's alone.
[[nodiscard]] bool makes_all(const Graph& prologue, const Graph& program);

/// Forward alone. `has_prologue`: what the prologue makes is there.
[[nodiscard]] Graph build_eval_graph(const NetworkDef& network, const BatchShape& shape,
                                     bool has_prologue = false);

/// Parameters and buffers of the network in the order of the graph.
[[nodiscard]] std::vector<Value> weights_of(const NetworkDef& network);
/// The parameters alone.
[[nodiscard]] std::vector<Value> parameters_of(const NetworkDef& network);
[[nodiscard]] std::vector<std::string> parameter_names(const NetworkDef& network);
/// What is fed to the parameters with this rate (optim::ParameterGroups): kHyperName, then
/// "hyper.1" and so on.
[[nodiscard]] std::string hyper_name(size_t rate);

}  // namespace snug::train
