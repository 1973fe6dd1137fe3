// SPDX-License-Identifier: Apache-2.0
// The compilation of a network on one page:
//
//   trace -> the rewrites of the forward part -> those of a whole program -> groups -> problem
//
// A rewrite is a function from graph to graph in a file of its own (rewriter.h is what they stand
// on), and a line here: its name, when it applies, and what it is given.
#include "compile/compile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "compile/adapters.h"
#include "compile/backward.h"
#include "compile/draws.h"
#include "compile/fuse_accumulate.h"
#include "compile/lower.h"
#include "compile/mixed_precision.h"
#include "compile/remove_dead.h"
#include "compile/row_sparse.h"
#include "compile/share_views.h"
#include "compile/split_prologue.h"
#include "compile/updates.h"
#include "compile/value_names.h"
#include "compile/weight_storage.h"
#include "graph/verify.h"

namespace snug::compile {
namespace {

bool always(const Job&) { return true; }

// Rewrites of the forward part, as the network's function built it.
constexpr Rewrite kForward[] = {
    // First: a number is the network's, whatever is made of it.
    {"number_draws", [](const Job& job) { return job.network.draws.has_value(); },
     [](Graph graph, const Job& job) {
       return number_draws(std::move(graph), *job.network.draws, job.ops());
     }},
    // New weights, so before what chooses how weights are stored.
    {"adapters", [](const Job& job) { return job.changes().lora.is_on(); },
     [](Graph graph, const Job& job) {
       return add_adapters(std::move(graph), job.network, job.request.training);
     }},
    {"weight_storage", [](const Job& job) { return job.changes().storage.is_on(); },
     [](Graph graph, const Job& job) { return store_weights(std::move(graph), job.network); }},
    {"mixed_precision", [](const Job& job) { return job.precision().is_on(); },
     [](Graph graph, const Job& job) {
       return apply_mixed_precision(std::move(graph), job.precision(), job.ops());
     }},
    // Last: which readers want f32 of a weight is known now.
    {"direct_reads", [](const Job& job) { return has_casts(job.changes().storage); },
     [](Graph graph, const Job& job) { return read_directly(std::move(graph), job.ops()); }},
};

// Rewrites of the whole program.
constexpr Rewrite kProgram[] = {
    {"backward", [](const Job& job) { return job.trains(); },
     [](Graph graph, const Job& job) {
       return append_backward(std::move(graph), job.recipe, *job.weights, job.request.micro_batches,
                              job.ops());
     }},
    {"update", [](const Job& job) { return job.program == Program::update; },
     [](Graph graph, const Job& job) {
       return append_update_program(std::move(graph), job.recipe, *job.weights, job.ops());
     }},
    // Helpers of gradients that freezing made unnecessary.
    {"remove_dead", always,
     [](Graph graph, const Job& job) { return remove_dead(std::move(graph), job.ops()); }},
    // Fewer nodes; behind it, since a view that nobody reads might be the first.
    {"share_views", always,
     [](Graph graph, const Job& job) { return share_views(std::move(graph), job.ops()); }},
    // Before what adds gradients in place.
    {"row_sparse_sums", [](const Job& job) { return !job.recipe.row_sparse.empty(); },
     [](Graph graph, const Job& job) {
       return row_sparse_sums(std::move(graph), job.ops(), job.recipe.row_sparse);
     }},
    {"row_sparse", [](const Job& job) { return job.trains(); },
     [](Graph graph, const Job& job) { return row_sparse(std::move(graph), job.ops()); }},
    // No temporary as large as the largest weight gradient.
    {"fuse_accumulate", always,
     [](Graph graph, const Job& job) { return fuse_accumulate(std::move(graph), job.ops()); }},
    // Behind it: packed products have no accumulating form.
    {"pack_weights", [](const Job& job) { return job.trains() && !job.recipe.packed.empty(); },
     [](Graph graph, const Job& job) {
       return pack_weights(std::move(graph), job.ops(), job.recipe.packed);
     }},
    // Each time it runs: whoever holds a weight may have changed it, and nobody would know.
    {"pack_for_evaluation", [](const Job& job) { return job.panels.columns > 0; },
     [](Graph graph, const Job& job) {
       const PackedWeights which = packable_weights(graph, job.panels, /*repeats=*/false);
       return pack_weights(std::move(graph), job.ops(), which, Phase::forward);
     }},
    // Last: it takes out what the others made of weights only.
    {"split_prologue", [](const Job& job) { return job.shares_prologue; },
     [](Graph graph, const Job& job) {
       WithPrologue split = split_prologue(std::move(graph));
       return std::move(job.program == Program::prologue ? split.prologue : split.main);
     }},
};

// Where there are several lengths, the text form says which a program has.
std::string graph_name(const BuildRequest& request) {
  const std::string name = request.training ? "train" : "evaluate";
  return request.lengths.has_names() ? name + ": " + to_string(request.lengths) : name;
}

Forward trace(const Job& job) {
  Graph graph = run_stage("trace", job.hooks, [&] {
    GraphBuilder builder(job.ops(), graph_name(job.request));
    const ValueId loss = job.network.build(builder, job.request);
    SNUG_CHECK(loss == kNone || builder.graph().find(kLossName) == loss, "a loss of another name");
    return builder.take();
  });
  graph = run_rewrites(kForward, std::move(graph), job);
  std::vector<Weight> weights;
  graph = run_stage("forward", job.hooks, [&] {
    weights = weights_in(graph, job.network);
    return std::move(graph);
  });
  return {std::move(graph), std::move(weights)};
}

std::shared_ptr<const Forward> forward_of(const Job& job) {
  const auto make = [&] { return std::make_shared<const Forward>(trace(job)); };
  // What is told is told whole.
  const bool is_kept = job.network.traces != nullptr && !job.hooks.after;
  return is_kept ? job.network.traces->get(job.request, make) : make();
}

Graph compiled(Job job) {
  std::shared_ptr<const Forward> forward;
  std::vector<Weight> weights;
  Graph graph;
  if (job.program == Program::update) {
    graph.name = "update";
    weights = weights_of(job.network);
  } else {
    forward = forward_of(job);
    graph = forward->graph;
  }
  job.weights = forward != nullptr ? &forward->weights : &weights;
  graph = run_rewrites(kProgram, std::move(graph), job);
  verify(graph);
  return graph;
}

const Recipe kNoRecipe;
const CompileHooks kNoHooks;

// Rows are a number that networks were built for when they were checked.
BuildRequest request_of_weights(const NetworkDef& network) {
  return {.rows = 3, .lengths = network.shortest, .training = true, .micro_batches = 1};
}

}  // namespace

std::shared_ptr<const Forward> forward_of(const NetworkDef& network, const BuildRequest& request) {
  return forward_of(Job{network, request.training ? Program::training : Program::evaluation,
                        request, kNoRecipe, false, kNoHooks});
}

std::vector<Weight> weights_of(const NetworkDef& network) {
  const auto make = [&] { return forward_of(network, request_of_weights(network)); };
  return network.traces != nullptr ? network.traces->weights(make) : make()->weights;
}

Graph build_train_graph(const NetworkDef& network, const Recipe& recipe, const ProgramShape& shape,
                        int64_t micro_batches, const CompileHooks& hooks) {
  return compiled({network,
                   Program::training,
                   {shape.rows, shape.lengths, true, micro_batches},
                   recipe,
                   accumulates_gradients(recipe, micro_batches),
                   hooks});
}

Graph build_eval_graph(const NetworkDef& network, const ProgramShape& shape, bool has_prologue,
                       const WeightPanels& panels, const CompileHooks& hooks) {
  return compiled({.network = network,
                   .program = Program::evaluation,
                   .request = {.rows = shape.rows, .lengths = shape.lengths, .training = false},
                   .recipe = kNoRecipe,
                   .shares_prologue = has_prologue,
                   .hooks = hooks,
                   .panels = panels});
}

Graph build_prologue_graph(const NetworkDef& network, const Recipe& recipe,
                           const Lengths& longest) {
  // What only longer programs read of a weight is packed, too. Any split has the same.
  const Lengths& lengths = recipe.packed.empty() ? network.shortest : longest;
  Graph graph =
      compiled({network, Program::prologue, {1, lengths, true, 2}, recipe, true, kNoHooks});
  SNUG_CHECK(count_packings(graph) == recipe.packed.weights.size(),
             "a weight is read in panels that nobody packs");
  return graph;
}

RowSparseSums row_sparse_sums_of(const NetworkDef& network, const Recipe& recipe,
                                 const ProgramShape& batch) {
  if (!recipe.updates || recipe.gradients != DType::f32) return {};
  // Most networks are let go here: every row of a batch has at least one id.
  const auto may_be = [&](const Weight& weight) {
    const Shape& shape = weight.value.type.shape;
    return weight.is_table && shape.size() == 2 && shape[0] >= 2 * batch.rows;
  };
  const std::vector<Weight> weights = weights_of(network);
  std::vector<Weight> tables = trained_of(weights, recipe);
  std::erase_if(tables, [&](const Weight& weight) { return !may_be(weight); });
  if (tables.empty()) return {};
  const OpRegistry& registry = ops_of(network);
  const auto forward = forward_of(network, {batch.rows, batch.lengths, true, 1});
  constexpr int64_t kSeveral = 2;
  Recipe of_tables = recipe;  // no other weight needs a gradient here
  of_tables.freeze = {};
  return find_row_sparse_sums(
      append_backward(forward->graph, of_tables, tables, kSeveral, registry),
      append_update_program({}, recipe, weights, registry));
}

Graph build_update_graph(const NetworkDef& network, const Recipe& recipe) {
  return compiled({network, Program::update, {}, recipe, false, kNoHooks});
}

runtime::Lowered lower(const Graph& graph, const Backend& backend, const LowerOptions& options,
                       const CompileHooks& hooks) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  OpGroups groups = group_ops(graph, backend);
  runtime::Lowered lowered = lower_groups(graph, std::move(groups), backend, options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (hooks.after)
    hooks.after({.stage = "kernels", .seconds = seconds, .graph = nullptr, .lowered = &lowered});
  return lowered;
}

std::vector<std::string> parameter_names(const NetworkDef& network) {
  std::vector<std::string> names;
  for (const Weight& weight : weights_of(network)) {
    if (weight.is_parameter()) names.push_back(weight.value.name);
  }
  return names;
}

}  // namespace snug::compile
