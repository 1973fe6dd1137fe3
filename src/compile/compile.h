// SPDX-License-Identifier: Apache-2.0
// The compilation of a network: its forward part is traced and rewritten, then every program of a
// run is made of it (compile.cc is the whole of it, on one page).
//
// A run has one training program and one evaluation program for each length. With more than one
// micro-batch a training program ends with sums of gradients, and the update program, run once an
// update, clips and updates; what is made of weights only is the prologue, run before them. In two
// passes the one training program runs twice (Recipe::has_two_passes).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "compile/lower.h"
#include "compile/rewrite.h"

namespace snug::compile {

/// A micro-batch: its rows, and the lengths that they are padded to.
struct ProgramShape {
  int64_t rows = 0;
  Lengths lengths = {};
};

/// The trace of a network: the same one for the same request, as far as the network keeps any.
[[nodiscard]] std::shared_ptr<const Forward> forward_of(const NetworkDef& network,
                                                        const BuildRequest& request);
/// Parameters and buffers of the network in the order of the graph, with their roles. In training
/// there may be weights that evaluation does not have, such as those of an auxiliary loss.
[[nodiscard]] std::vector<Weight> weights_of(const NetworkDef& network);
/// The names of the parameters.
[[nodiscard]] std::vector<std::string> parameter_names(const NetworkDef& network);

/// Forward, backward, and then either accumulation into the "grad." states (where an update has
/// more than one micro-batch) or clipping and update.
[[nodiscard]] Graph build_train_graph(const NetworkDef& network, const Recipe& recipe,
                                      const ProgramShape& shape, int64_t micro_batches,
                                      const CompileHooks& hooks = {});
/// Forward alone. `has_prologue`: what the prologue makes is there. `panels`: of weights that
/// several of its products read, which it packs; of none where they have no columns.
[[nodiscard]] Graph build_eval_graph(const NetworkDef& network, const ProgramShape& shape,
                                     bool has_prologue = false, const WeightPanels& panels = {},
                                     const CompileHooks& hooks = {});
/// What the programs of an update with more than one micro-batch share, made once an update from
/// the weights (Phase::prologue). Without nodes where the network has no such part; with one
/// micro-batch it is a part of the training program.
[[nodiscard]] Graph build_prologue_graph(const NetworkDef& network, const Recipe& recipe,
                                         const Lengths& longest);
/// The weights whose gradients are row-sparse sums where they are summed up: Recipe::row_sparse for
/// batches of so many rows.
[[nodiscard]] RowSparseSums row_sparse_sums_of(const NetworkDef& network, const Recipe& recipe,
                                               const ProgramShape& batch);
/// Norm, clipping, update and zeroing of the accumulated gradients.
[[nodiscard]] Graph build_update_graph(const NetworkDef& network, const Recipe& recipe);

/// From a program to the planner's problem (group_ops.h, lower.h).
[[nodiscard]] runtime::Lowered lower(const Graph& graph, const Backend& backend,
                                     const LowerOptions& options = {},
                                     const CompileHooks& hooks = {});

}  // namespace snug::compile
