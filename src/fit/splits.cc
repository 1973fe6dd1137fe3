// SPDX-License-Identifier: Apache-2.0
#include "fit/splits.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/units.h"
#include "compile/backward.h"
#include "compile/compile.h"
#include "compile/split_prologue.h"
#include "fit/saved_plan.h"
#include "plan/frontier/shorter_net.h"
#include "plan/improve/bound.h"
#include "runtime/resident_layout.h"
#include "snug/error.h"

namespace snug::train {
namespace {

// Forward ops of all splits together; and of one, beyond which there are two splits.
constexpr size_t kMostOpsInAll = 90'000;
constexpr size_t kMostOpsOfMany = 40'000;

// What the updates of weights read from the backward part.
std::vector<plan::StorageId> updated_gradients(const plan::Problem& problem) {
  IdVector<bool> is_backward(problem.storages.size(), false);
  std::vector<plan::StorageId> gradients;
  for (const plan::Op& op : problem.ops) {
    for (const plan::StorageId output : op.outputs)
      is_backward[output] = op.phase == plan::Phase::backward;
    const bool updates = op.phase == plan::Phase::update &&
                         std::any_of(op.outputs.begin(), op.outputs.end(), [&](plan::StorageId id) {
                           return problem.storages[id].resident;
                         });
    if (!updates) continue;
    for (const plan::StorageId input : op.inputs) {
      if (!is_backward[input] || problem.storages[input].resident) continue;
      gradients.push_back(input);
      is_backward[input] = false;  // tied weights: once
    }
  }
  return gradients;
}

// Of the steps of optimizers: they move what stays by what they read beside it.
double seconds_of_steps(const plan::Problem& problem) {
  double seconds = 0;
  for (const plan::Op& op : problem.ops) {
    const bool moves = op.phase == plan::Phase::update &&
                       std::any_of(op.outputs.begin(), op.outputs.end(), [&](plan::StorageId id) {
                         return problem.storages[id].resident;
                       });
    const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(), [&](plan::StorageId id) {
      return std::find(op.outputs.begin(), op.outputs.end(), id) == op.outputs.end();
    });
    if (moves && reads) seconds += op.seconds;
  }
  return seconds;
}

int64_t peak_bytes(const Split& split, int64_t arena_bytes, const RunPlanRequest& request) {
  const int64_t arena = std::max(arena_bytes, split.other_arena_bytes);
  return std::max(request.process_bytes + split.resident_bytes + round_up(arena, kPageBytes),
                  request.startup_bytes);
}

// Makes what is not there yet of the programs that this split runs once an update.
std::vector<const PlannedProgram*> once_an_update(const RunPlanRequest& request,
                                                  const Recipe& recipe, const Split& split,
                                                  const Backend& backend, UpdatePrograms& once) {
  std::vector<const PlannedProgram*> programs;
  if (split.has_prologue) {
    if (once.find_prologue(split.packed) == nullptr)
      once.prologues.emplace_back(
          split.packed,
          plain_program(request, "prologue",
                        build_prologue_graph(request.network, recipe, request.lengths.back()), {},
                        backend));
    programs.push_back(&once.prologue_of(split));
  }
  if (request.trains && split.accumulation_steps > 1 && request.recipe.updates) {
    if (!once.update)
      once.update = plain_program(request, "update", build_update_graph(request.network, recipe),
                                  {}, backend);
    programs.push_back(&*once.update);
  }
  return programs;
}

// What runs forward, in order. Which nodes are one op differs with the sizes ("slice+add").
std::string forward_nodes(const plan::Problem& problem) {
  std::string names;
  for (const plan::Op& op : problem.ops) {
    if (op.phase == plan::Phase::forward) names += op.name + "+";
  }
  return names;
}

// Every split trains the same network.
void check_same_network(const plan::Problem& first, const plan::Problem& other) {
  if (forward_nodes(first) == forward_nodes(other)) return;
  throw Error(ErrorCode::bad_config, "network",
              "it was built for several micro-batches, and is not the same network every time",
              "let its function depend on nothing but the builder: no counters, no random numbers");
}

// Whether an op may need more scratch for shorter rows: one of the caller's, and products of 16
// bits, which copy operands that do not fill a tile.
bool may_need_more_for_less(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op->callers_kernel != nullptr; }) ||
         std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return is_half(value.type.dtype); });
}

// Building another form of an extremely long program would take as long as planning one.
bool may_pack(const RunPlanRequest& request, const Graph& graph) {
  return request.packs_weights.value_or(true) &&
         std::cmp_less_equal(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                           [](const Node& n) { return n.phase == Phase::forward; }),
                             kMostOpsOfMany);
}

// The programs of shorter rows must fit where those of the longest do.
void meet_shorter_rows(const RunPlanRequest& request, const Recipe& recipe, const Backend& backend,
                       Split& split) {
  const bool counts_training = request.trains && may_need_more_for_less(split.program->graph);
  const Graph& evaluation = request.trains ? split.evaluation->graph : split.program->graph;
  const bool counts_evaluation = may_need_more_for_less(evaluation);
  for (size_t i = 0; i + 1 < request.lengths.size(); ++i) {
    const BatchShape shape{split.micro_batch, request.lengths[i]};
    if (counts_evaluation) {
      const PlannedProgram shorter = plain_program(
          request, "eval", build_eval_graph(request.network, shape, split.serves_evaluation),
          shape.lengths, backend);
      split.other_arena_bytes = std::max(split.other_arena_bytes, shorter.plan.arena_bytes);
    }
    if (counts_training) {
      const Graph graph =
          build_train_graph(request.network, recipe, shape, split.accumulation_steps);
      plan::take_scratch_of_part(lower(graph, backend, split.accumulation_steps).problem,
                                 split.program->lowered.problem);
    }
  }
}

}  // namespace

PlannedProgram* UpdatePrograms::find_prologue(const PackedWeights& packed) {
  const auto found = std::find_if(prologues.begin(), prologues.end(),
                                  [&](const auto& prologue) { return prologue.first == packed; });
  return found == prologues.end() ? nullptr : &found->second;
}

PlannedProgram& UpdatePrograms::prologue_of(const Split& split) {
  PlannedProgram* const found = find_prologue(split.packed);
  SNUG_CHECK(found != nullptr, "a split without its prologue");
  return *found;
}

PlannedProgram plain_program(const RunPlanRequest& request, const std::string& kind, Graph graph,
                             const Lengths& length, const Backend& backend) {
  PlannedProgram program{.length = length, .graph = std::move(graph), .lowered = {}, .plan = {}};
  program.lowered = lower(program.graph, backend);
  const plan::Problem& problem = program.lowered.problem;
  program.plan = request.saved != nullptr ? request.saved->at(kind, length, problem)
                                          : plan::plan_strategy(problem, "keep-all");
  return program;
}

std::string coupling_of(const RunPlanRequest& request) {
  const NetworkDef& network = request.network;
  if (request.trains && !network.coupling.empty()) return network.coupling;
  if (network.eval_coupling.empty()) return {};
  return request.trains ? network.eval_coupling + ", in evaluation" : network.eval_coupling;
}

std::vector<int64_t> micro_batches(int64_t global_batch) {
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t pieces) {
    if (pieces > global_batch) return;
    const int64_t size = (global_batch + pieces - 1) / pieces;
    if (sizes.empty() || sizes.back() > size) sizes.push_back(size);
  };
  add(1);
  for (int64_t pieces = 2; pieces <= global_batch; pieces *= 2) {
    add(pieces);
    add(pieces + pieces / 2);
  }
  add(global_batch);
  return sizes;
}

std::vector<int64_t> affordable(const std::vector<int64_t>& sizes, const plan::Problem& problem) {
  const auto ops = static_cast<size_t>(
      std::count_if(problem.ops.begin(), problem.ops.end(),
                    [](const plan::Op& op) { return op.phase == plan::Phase::forward; }));
  if (sizes.size() < 3 || ops * sizes.size() <= kMostOpsInAll) return sizes;
  if (ops > kMostOpsOfMany) return {sizes.front(), sizes.back()};
  const size_t count = std::max<size_t>(3, kMostOpsInAll / ops);
  std::vector<int64_t> chosen = {sizes[0]};
  for (size_t i = 0; i + 1 < count; ++i)
    chosen.push_back(sizes[1 + i * (sizes.size() - 2) / (count - 2)]);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::optional<int64_t> largest_accumulating(const std::vector<int64_t>& sizes,
                                            int64_t global_batch) {
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](int64_t size) { return size < global_batch; });
  return found == sizes.end() ? std::nullopt : std::optional(*found);
}

// The name of the switch, without what a command line puts before it.
static std::string split_key(const RunPlanRequest& request) {
  const std::string words = option_words(request.words, "allow_batch_norm_split", "");
  return words.substr(words.find_first_not_of('-'));
}

// Where two passes are asked for.
static void check_two_passes(const RunPlanRequest& request) {
  if (!request.recipe.waits_for_norm() || !request.recipe.updates)
    throw Error(ErrorCode::bad_config, "two_pass_clip",
                "no update waits for the norm of its gradients: max_grad_norm is 0",
                "omit it: each update follows its gradient anyway");
  if (request.micro_batch > 0 && request.micro_batch != request.global_batch)
    throw Error(ErrorCode::bad_config, "two_pass_clip",
                "a micro-batch of " + std::to_string(request.micro_batch) +
                    " is not the batch of " + std::to_string(request.global_batch) +
                    ", and two passes need one micro-batch",
                "omit micro_batch_size, or two_pass_clip");
}

Recipe recipe_for(const RunPlanRequest& request, const SplitForm& form) {
  Recipe recipe = request.recipe;
  recipe.has_two_passes = form.has_two_passes;
  recipe.packed = form.packed;
  return recipe;
}

std::optional<SplitForm> packed_form(const RunPlanRequest& request, const Split& split) {
  if (!request.packs_weights.value_or(true) || split.packable.empty()) return std::nullopt;
  return SplitForm{split.micro_batch, split.has_two_passes, split.packable};
}

bool may_have_passes(const RunPlanRequest& request, int64_t micro_batch, bool has_two_passes) {
  if (!has_two_passes) return !request.trains || !request.two_pass_clip.value_or(false);
  return request.trains && request.two_pass_clip.value_or(true) && request.recipe.updates &&
         request.recipe.waits_for_norm() && micro_batch == request.global_batch;
}

int64_t runs_of(const Split& split) { return split.has_two_passes ? 2 : split.accumulation_steps; }

double step_seconds_of(const Split& split, double program_seconds) {
  return static_cast<double>(runs_of(split)) * program_seconds - split.skipped_seconds +
         split.update_seconds;
}

// The batch statistic of one value a channel: its variance is 0, so every output is the bias and no
// gradient comes through. Empty where a program of single rows has none.
static std::string single_value(const RunPlanRequest& request) {
  for (const Lengths& lengths : request.lengths) {
    const auto forward = forward_of(
        request.network, {.rows = 1, .lengths = lengths, .training = true, .micro_batches = 1});
    const Graph& graph = forward->graph;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (!node.op->has_statistics) continue;
      const Shape& x = graph.type(node.inputs[0]).shape;
      if (element_count(x) == x.back()) return describe(graph, static_cast<NodeId>(n));
    }
  }
  return {};
}

// Single rows are no split where they have such a statistic.
static void leave_single_values(const RunPlanRequest& request, std::vector<int64_t>& sizes) {
  const std::string found = single_value(request);
  if (found.empty()) return;
  sizes.pop_back();
  if (!sizes.empty()) return;
  throw Error(ErrorCode::bad_config,
              request.micro_batch > 0                      ? "micro_batch_size"
              : request.words == OptionWords::command_line ? "train_batch_size"
                                                           : "batch_rows",
              "of single rows " + found +
                  " normalises one value a channel: it would be the bias "
                  "whatever the row is, and nothing would be trained",
              "give micro-batches of 2 rows or more");
}

std::vector<int64_t> micro_batches_of(const RunPlanRequest& request) {
  const int64_t batch = request.global_batch;
  const bool has_two_passes = request.trains && request.two_pass_clip.value_or(false);
  if (has_two_passes) check_two_passes(request);
  const int64_t given = has_two_passes ? batch : request.micro_batch;
  const std::string coupling = coupling_of(request);
  const bool must_be_equal = !coupling.empty();
  if (must_be_equal && given > 0 && given != batch) {
    if (!request.allow_coupled_split) {
      throw Error(
          ErrorCode::bad_config, "micro_batch_size",
          "the model " + coupling + ", and a micro-batch of " + std::to_string(given) +
              " is not the batch of " + std::to_string(batch),
          "omit it, or set " + split_key(request) + " to train on the rows of micro-batches only");
    }
    if (batch % given != 0) {
      throw Error(ErrorCode::bad_config, "micro_batch_size",
                  "the model " + coupling + " and needs equal micro-batches, but " +
                      std::to_string(given) + " does not divide the batch of " +
                      std::to_string(batch),
                  "choose a divisor of the batch");
    }
  }
  std::vector<int64_t> sizes = micro_batches(batch);
  if (must_be_equal) std::erase_if(sizes, [batch](int64_t size) { return batch % size != 0; });
  if (must_be_equal && !request.allow_coupled_split) sizes = {batch};
  if (given > 0) sizes = {given};
  if (sizes.back() == 1 && request.trains && !request.network.coupling.empty())
    leave_single_values(request, sizes);
  return sizes;
}

Split make_unplanned_split(const RunPlanRequest& request, const SplitForm& form,
                           const Backend& backend, UpdatePrograms& update,
                           const PhaseSink& on_phase) {
  const auto begin = [&](const char* phase) {
    if (on_phase) on_phase(phase);
  };
  begin(kBuilding);
  const int64_t micro_batch = form.micro_batch;
  const Recipe recipe = recipe_for(request, form);
  Split split{.micro_batch = micro_batch,
              .accumulation_steps = (request.global_batch + micro_batch - 1) / micro_batch,
              .has_two_passes = form.has_two_passes,
              .packed = form.packed,
              .packable = {},
              .resident_bytes = 0,
              .other_arena_bytes = 0,
              .clipped_gradients = {},
              .update_seconds = 0,
              .has_prologue = false,
              .serves_evaluation = false,
              .program = nullptr,
              .evaluation = std::nullopt,
              .frontier = std::nullopt};
  const BatchShape shape{micro_batch, request.lengths.back()};
  const bool accumulates = split.accumulation_steps > 1;
  ResidentLayout residents;
  Recorder recorder(request.records);
  const CompileHooks hooks = recorder.hooks();
  // What evaluation feeds and reads is fed and read in training too.
  split.program = std::make_unique<PlannedProgram>();
  split.program->length = shape.lengths;
  split.program->graph = request.trains ? build_train_graph(request.network, recipe, shape,
                                                            split.accumulation_steps, hooks)
                                        : build_eval_graph(request.network, shape, false, hooks);
  const Graph& graph = split.program->graph;
  residents.add(graph, backend);
  split.has_prologue = reads_prologue(graph);
  if (request.trains && form.packed.empty() && may_pack(request, graph))
    split.packable = packable_weights(graph, backend.panel_columns(), accumulates);
  for (const PlannedProgram* each : once_an_update(request, recipe, split, backend, update)) {
    residents.add(each->graph, backend);
    split.other_arena_bytes = std::max(split.other_arena_bytes, each->plan.arena_bytes);
    split.update_seconds += each->plan.seconds;
  }
  // Mostly a part of what training makes; but it recomputes nothing, and may have types of its own.
  if (request.trains) {
    Graph evaluation = build_eval_graph(request.network, shape, split.has_prologue);
    if (split.has_prologue) {
      split.serves_evaluation = makes_all(update.prologue_of(split).graph, evaluation);
      if (!split.serves_evaluation) evaluation = build_eval_graph(request.network, shape);
    }
    split.evaluation =
        plain_program(request, "eval", std::move(evaluation), shape.lengths, backend);
    residents.add(split.evaluation->graph, backend);
    split.other_arena_bytes = std::max(split.other_arena_bytes, split.evaluation->plan.arena_bytes);
  }
  if (request.trains) residents.add(kept_buffers(graph, recipe), backend);
  split.resident_bytes = residents.place(backend.alignment());
  begin(kLowering);
  split.program->lowered = lower(graph, backend, split.accumulation_steps, hooks);
  split.program->stages = recorder.take();
  meet_shorter_rows(request, recipe, backend, split);
  const plan::Problem& problem = split.problem();
  if (split.has_two_passes) split.skipped_seconds = seconds_of_steps(problem);
  if (!request.trains || accumulates || !recipe.updates) return split;
  std::vector<plan::StorageId> gradients = updated_gradients(problem);
  if (recipe.waits_for_norm() && !recipe.has_two_passes) {
    split.clipped_gradients = std::move(gradients);
  } else {
    for (const plan::StorageId id : gradients)
      split.dying_gradient_bytes += problem.storages[id].bytes;
  }
  return split;
}

int64_t least_peak_bytes(const Split& split, const RunPlanRequest& request) {
  return peak_bytes(split, plan::working_set_bound(split.problem()).bytes, request);
}

void plan_split(const RunPlanRequest& request, const Split* model, Split& split,
                const plan::ShareSink& on_share) {
  const plan::Problem& problem = split.problem();
  const std::string strategy = request.trains ? request.strategy : "keep-all";
  if (request.saved != nullptr) {
    split.frontier.emplace(problem, request.saved->at(request.trains ? "train" : "eval",
                                                      request.lengths.back(), problem));
  } else if (!strategy.empty()) {
    split.frontier.emplace(problem, plan::plan_strategy(problem, strategy));
  } else if (model != nullptr && model->packed != split.packed) {
    split.frontier = plan::build_frontier_beside(problem, model->problem(), *model->frontier,
                                                 plan::kQuickFrontier, on_share);
  } else if (model != nullptr) {
    split.frontier = plan::build_frontier_like(problem, model->problem(), *model->frontier,
                                               plan::kQuickFrontier, on_share);
  } else {
    split.frontier = plan::build_frontier(problem, plan::kQuickFrontier, on_share);
  }
}

int64_t planning_steps(const RunPlanRequest& request, size_t splits) {
  const auto programs = static_cast<int64_t>(request.lengths.size()) * (request.trains ? 2 : 1) + 1;
  return kPartsOfStep * (2 * static_cast<int64_t>(splits) + programs);
}

void Split::let_graph_go() {
  program->graph = {};
  program->stages = {};
  program->lowered.nodes_of_op = {};
  program->lowered.storage_of_value = {};
  evaluation.reset();
}

// Behind every split that joins: the fastest plan so far that fits keeps its graph.
static void keep_best_graph(std::vector<Split>& splits, const RunPlanRequest& request,
                            std::optional<PlacedCandidate>& best) {
  Split& added = splits.back();
  const auto order = [](const auto& candidate) {
    return std::pair(candidate.step_seconds, candidate.least_peak_bytes);
  };
  std::vector<Candidate> faster = candidates_of({&added, 1}, request);
  if (best)
    std::erase_if(faster, [&](const Candidate& each) { return order(each) >= order(*best); });
  const auto found = best_within(faster, request);
  if (found) {
    for (Split& split : splits) {
      if (&split != &added) split.let_graph_go();
    }
    best = found;
  } else if (best || !request.takes_smallest) {
    added.let_graph_go();
  }
}

Splits make_splits(const RunPlanRequest& request, const Backend& backend) {
  // Programs that accumulate have the same ops: the schedules of the largest of them serve all,
  // also where the micro-batch is given. So one that was chosen once, and is kept on resume, has
  // the plans it had then.
  RunPlanRequest open = request;
  open.micro_batch = 0;
  std::vector<int64_t> sizes = micro_batches_of(request);
  std::vector<int64_t> choice = micro_batches_of(open);
  Splits made;
  std::optional<Split> first;
  int64_t done = 0;
  size_t expected = 0;  // splits
  const auto tell = [&](double share, const char* phase) {
    const double parts = static_cast<double>(kPartsOfStep) * (static_cast<double>(done) + share);
    if (request.on_progress)
      request.on_progress(static_cast<int64_t>(parts), planning_steps(request, expected), phase);
  };
  const PhaseSink begin = [&](const char* phase) { tell(0, phase); };
  const auto count_expected = [&] {
    expected = 0;
    for (const int64_t size : sizes) {
      for (const bool has_two_passes : {false, true})
        expected += may_have_passes(request, size, has_two_passes) ? 1 : 0;
    }
  };
  count_expected();
  const plan::Problem* known = nullptr;  // of the split that was made first
  const auto make = [&](const SplitForm& form) {
    Split split = make_unplanned_split(request, form, backend, made.once, begin);
    // What is packed has other ops.
    if (known != nullptr && form.packed.empty()) check_same_network(*known, split.problem());
    if (known == nullptr) known = &split.problem();
    return split;
  };
  if (request.trains && choice.size() > 1) {
    first = make({sizes.front()});
    choice = affordable(choice, first->problem());
    if (request.micro_batch == 0) sizes = choice;
    count_expected();
  }
  const std::optional<int64_t> largest = largest_accumulating(choice, request.global_batch);
  const bool searches = request.trains && request.saved == nullptr && request.strategy.empty();
  // Plans that are replayed or named are of one form.
  const auto is_planned = [&](const Split& split) {
    return searches || !request.packs_weights.value_or(false) || !packed_form(request, split);
  };
  const auto take = [&](const SplitForm& form, const Split* model) {
    Split split = first && first->micro_batch == form.micro_batch && !form.has_two_passes
                      ? std::move(*std::exchange(first, std::nullopt))
                      : make(form);
    ++done;
    if (is_planned(split)) plan_split(request, model, split, tell);
    ++done;
    tell(0, kPlacement);
    return split;
  };

  std::vector<Split>& splits = made.list;
  splits.reserve(4 * sizes.size());  // pointers into it stay valid
  std::optional<PlacedCandidate> best;
  const auto add = [&](Split split) {
    splits.push_back(std::move(split));
    keep_best_graph(splits, request, best);
  };
  std::vector<Split> models;  // that are tried for their schedules only
  models.reserve(2 * sizes.size() + 1);
  // The form with packed weights follows the schedules of the one without. Returns where that is.
  const auto add_forms = [&](Split plain) -> const Split* {
    std::optional<Split> packed;
    if (const auto form = packed_form(request, plain)) {
      packed = make(*form);
      plan_split(request, searches ? &plain : nullptr, *packed);
    }
    const bool is_model = packed && request.packs_weights.value_or(false);
    if (is_model) plain.let_graph_go();
    is_model ? models.push_back(std::move(plain)) : add(std::move(plain));
    const Split* const place = is_model ? &models.back() : &splits.back();
    if (packed) add(std::move(*packed));
    return place;
  };
  const Split* like = nullptr;
  for (const int64_t size : sizes) {
    const bool accumulates = size < request.global_batch;
    if (accumulates && searches && like == nullptr && size != *largest) {
      models.push_back(take({*largest}, nullptr));
      models.back().let_graph_go();
      like = &models.back();
    }
    if (may_have_passes(request, size, false)) {
      const Split* const plain = add_forms(take({size}, accumulates ? like : nullptr));
      if (accumulates && like == nullptr) like = plain;
    }
    if (may_have_passes(request, size, true)) (void)add_forms(take({size, true}, nullptr));
  }
  made.steps = planning_steps(request, expected);
  return made;
}

std::vector<Candidate> candidates_of(std::span<const Split> splits, const RunPlanRequest& request) {
  std::vector<Candidate> all;
  for (const Split& split : splits) {
    const auto& points = split.frontier->points();
    for (size_t i = 0; i < points.size(); ++i) {
      all.push_back({.split = &split,
                     .point = i,
                     .step_seconds = step_seconds_of(split, points[i].seconds),
                     .least_peak_bytes = peak_bytes(split, points[i].load_bytes, request)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.step_seconds != b.step_seconds ? a.step_seconds < b.step_seconds
                                            : a.least_peak_bytes < b.least_peak_bytes;
  });
  return all;
}

PlacedCandidate placed(const Candidate& candidate, const RunPlanRequest& request) {
  const int64_t arena_bytes = candidate.split->frontier->arena_bytes(candidate.point);
  return {.split = candidate.split,
          .point = candidate.point,
          .step_seconds = candidate.step_seconds,
          .least_peak_bytes = candidate.least_peak_bytes,
          .arena_bytes = std::max(arena_bytes, candidate.split->other_arena_bytes),
          .peak_bytes = peak_bytes(*candidate.split, arena_bytes, request)};
}

std::optional<PlacedCandidate> best_within(const std::vector<Candidate>& candidates,
                                           const RunPlanRequest& request) {
  for (const Candidate& candidate : candidates) {
    if (candidate.least_peak_bytes > request.budget_bytes) continue;
    const PlacedCandidate found = placed(candidate, request);
    if (found.peak_bytes <= request.budget_bytes) return found;
  }
  return std::nullopt;
}

PlacedCandidate smallest_of(const std::vector<Candidate>& candidates,
                            const RunPlanRequest& request) {
  // What the start of the program needs is a floor: within it the fastest is the smallest.
  RunPlanRequest at_floor = request;
  at_floor.budget_bytes = request.startup_bytes;
  if (const auto within = best_within(candidates, at_floor)) return *within;
  // Of equal ones the faster first: where it reaches its load, the slower, which leaves room, need
  // not be placed.
  std::vector<Candidate> rising = candidates;
  std::stable_sort(rising.begin(), rising.end(), [](const Candidate& a, const Candidate& b) {
    return a.least_peak_bytes < b.least_peak_bytes;
  });
  PlacedCandidate best = placed(rising.front(), request);
  for (const Candidate& candidate : rising) {
    if (candidate.least_peak_bytes > best.peak_bytes) break;
    if (candidate.least_peak_bytes == best.peak_bytes &&
        candidate.step_seconds >= best.step_seconds)
      continue;
    const PlacedCandidate found = placed(candidate, request);
    if (found.peak_bytes < best.peak_bytes ||
        (found.peak_bytes == best.peak_bytes && found.step_seconds < best.step_seconds))
      best = found;
  }
  return best;
}

}  // namespace snug::train
