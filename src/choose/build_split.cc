// SPDX-License-Identifier: Apache-2.0
#include "choose/build_split.h"

#include <algorithm>
#include <utility>

#include "base/id_vector.h"
#include "choose/plain_program.h"
#include "choose/planning_progress.h"
#include "choose/sizes.h"
#include "compile/backward.h"
#include "compile/compile.h"
#include "compile/split_prologue.h"
#include "plan/frontier/shorter_net.h"
#include "runtime/resident_layout.h"

namespace snug::choose {

namespace {

// What the updates of weights read from the backward part.
std::vector<plan::StorageId> updated_gradients(const plan::Problem& problem) {
  IdVector<plan::StorageId, bool> is_backward(problem.storages.size(), false);
  std::vector<plan::StorageId> gradients;
  for (const plan::Op& op : problem.ops) {
    for (const plan::StorageId output : op.outputs)
      is_backward[output] = op.phase == Phase::backward;
    if (op.phase != Phase::update || !has_resident_output(problem, op)) continue;
    for (const plan::StorageId input : op.inputs) {
      if (!is_backward[input] || problem.storages[input].resident) continue;
      gradients.push_back(input);
      is_backward[input] = false;  // tied weights: once
    }
  }
  return gradients;
}

double seconds_of_steps(const plan::Problem& problem) {
  double seconds = 0;
  for (const plan::Op& op : problem.ops) seconds += is_left_out_first(problem, op) ? op.seconds : 0;
  return seconds;
}

// Whether an op may need more scratch for shorter rows: one of the caller's, and products of 16
// bits, which copy operands that do not fill a tile.
bool may_need_more_for_less(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op->callers_kernel != nullptr; }) ||
         std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return is_half(value.type.dtype); });
}

// Whether a product may have so few rows: rows of a batch, and of each the tokens.
bool has_few_rows(const compile::ProgramShape& shape, int64_t few_rows) {
  const auto is_few = [&](int64_t length) { return shape.rows * length <= few_rows; };
  if (!shape.lengths.has_names()) return is_few(shape.lengths.of());
  const auto& lengths = shape.lengths.by_name();
  return std::any_of(lengths.begin(), lengths.end(),
                     [&](const auto& length) { return is_few(length.second); });
}

// Building another form of an extremely long program would take as long as planning one.
bool may_pack(const RunPlanRequest& request, const Graph& graph) {
  return request.packs_weights.value_or(true) &&
         std::cmp_less_equal(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                           [](const Node& n) { return n.phase == Phase::forward; }),
                             kMostOpsOfMany);
}

class SplitBuilder {
 public:
  SplitBuilder(const RunPlanRequest& request, const SplitForm& form, const Backend& backend,
               UpdatePrograms& once)
      : request_(request),
        backend_(backend),
        once_(once),
        recipe_(recipe_for(request, form)),
        shape_{form.micro_batch, request.lengths.back()},
        recorder_(request.records),
        hooks_(recorder_.hooks()) {
    split_.form = form;
    split_.accumulation_steps = (request.global_batch + form.micro_batch - 1) / form.micro_batch;
  }

  [[nodiscard]] BatchSplit build(const PhaseSink& on_phase) {
    if (on_phase) on_phase(kBuilding);
    build_program();
    add_update_programs();
    if (request_.trains) add_evaluation();
    if (request_.trains) residents_.add(compile::kept_buffers(graph(), recipe_), backend_);
    split_.resident_bytes = residents_.place(backend_.alignment());
    if (on_phase) on_phase(kLowering);
    lower_program();
    meet_shorter_rows();
    count_gradients();
    return std::move(split_);
  }

 private:
  void build_program();
  void add_update_programs();
  void add_evaluation();
  void lower_program();
  void meet_shorter_rows();
  void count_gradients();

  [[nodiscard]] const Graph& graph() const { return split_.program->graph; }
  [[nodiscard]] compile::LowerOptions lower_options() const {
    return {.pieces = split_.accumulation_steps, .fusion = request_.fusion};
  }
  [[nodiscard]] const SavedPlan* saved() const { return saved_plan_of(request_, split_.form); }
  [[nodiscard]] bool accumulates() const { return split_.accumulation_steps > 1; }
  void make_room_for(const plan::Plan& plan) {
    split_.other_arena_bytes = std::max(split_.other_arena_bytes, plan.arena_bytes);
  }

  const RunPlanRequest& request_;
  const Backend& backend_;
  UpdatePrograms& once_;
  const compile::Recipe recipe_;
  const compile::ProgramShape shape_;  // the longest rows
  compile::Recorder recorder_;
  const compile::CompileHooks hooks_;
  runtime::ResidentLayout residents_;
  BatchSplit split_;
};

void SplitBuilder::build_program() {
  split_.program = std::make_unique<PlannedProgram>();
  split_.program->length = shape_.lengths;
  split_.program->graph = request_.trains
                              ? compile::build_train_graph(request_.network, recipe_, shape_,
                                                           split_.accumulation_steps, hooks_)
                              : evaluation_graph(request_, split_, shape_, backend_, hooks_);
  residents_.add(graph(), backend_);
  split_.has_prologue = compile::reads_prologue(graph());
  if (split_.form.packed.empty() && may_pack(request_, graph())) {
    const bool repeats = request_.trains && accumulates();
    split_.packable = compile::packable_weights(graph(), backend_.weight_panels(), repeats);
  }
}

void SplitBuilder::add_update_programs() {
  for (const PlannedProgram* each : once_an_update(request_, split_, backend_, once_)) {
    residents_.add(each->graph, backend_);
    make_room_for(each->plan);
    split_.update_seconds += each->plan.seconds;
  }
}

// What it feeds and reads is mostly fed and read in training, too; but it recomputes nothing, and
// may have types of its own.
void SplitBuilder::add_evaluation() {
  split_.serves_evaluation = split_.has_prologue;
  Graph evaluation = evaluation_graph(request_, split_, shape_, backend_);
  if (split_.has_prologue && !compile::makes_all(once_.prologue_of(split_).graph, evaluation)) {
    split_.serves_evaluation = false;
    evaluation = evaluation_graph(request_, split_, shape_, backend_);
  }
  // Panels are there all the time, and hard to place well; training takes more bytes than that.
  const auto options = split_.form.packed.empty() ? plan::FrontierOptions{} : plan::kQuickFrontier;
  split_.evaluation = plain_program(request_, saved(), "eval", std::move(evaluation),
                                    shape_.lengths, backend_, options);
  residents_.add(split_.evaluation->graph, backend_);
  make_room_for(split_.evaluation->plan);
}

void SplitBuilder::lower_program() {
  split_.program->lowered = compile::lower(graph(), backend_, lower_options(), hooks_);
  split_.program->stages = recorder_.take();
}

// The programs of shorter rows must fit where those of the longest do.
void SplitBuilder::meet_shorter_rows() {
  const bool counts_training = request_.trains && may_need_more_for_less(graph());
  const bool counts_evaluation =
      may_need_more_for_less(request_.trains ? split_.evaluation->graph : graph());
  for (size_t i = 0; i + 1 < request_.lengths.size(); ++i) {
    const compile::ProgramShape shape{shape_.rows, request_.lengths[i]};
    const bool is_small = has_few_rows(shape, backend_.few_rows());
    if (counts_evaluation || is_small) {
      Graph shorter = evaluation_graph(request_, split_, shape, backend_);
      make_room_for(
          plain_program(request_, saved(), "eval", std::move(shorter), shape.lengths, backend_)
              .plan);
    }
    if (counts_training || (is_small && request_.trains)) {
      const Graph shorter =
          compile::build_train_graph(request_.network, recipe_, shape, split_.accumulation_steps);
      plan::take_scratch_of_part(compile::lower(shorter, backend_, lower_options()).problem,
                                 split_.program->lowered.problem);
    }
  }
}

void SplitBuilder::count_gradients() {
  const plan::Problem& problem = split_.problem();
  if (split_.form.has_two_passes) split_.skipped_seconds = seconds_of_steps(problem);
  if (!request_.trains || accumulates() || !recipe_.updates) return;
  std::vector<plan::StorageId> gradients = updated_gradients(problem);
  if (recipe_.waits_for_norm() && !recipe_.has_two_passes) {
    split_.clipped_gradients = std::move(gradients);
  } else {
    for (const plan::StorageId id : gradients)
      split_.dying_gradient_bytes += problem.storages[id].bytes;
  }
}

}  // namespace

BatchSplit build_split(const RunPlanRequest& request, const SplitForm& form, const Backend& backend,
                       UpdatePrograms& once, const PhaseSink& on_phase) {
  return SplitBuilder(request, form, backend, once).build(on_phase);
}

}  // namespace snug::choose
