// SPDX-License-Identifier: Apache-2.0
#include "session/explain_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/stop.h"
#include "choose/batch_split.h"
#include "graph/node_classes.h"
#include "graph/op_def.h"
#include "plan/problem/liveness.h"
#include "plan/problem/row_runs.h"

namespace snug::session {
namespace {

using plan::Fused;
using plan::RowJoin;

// What is told together, in the order in which it came first.
template <class Key, class Told>
class Sums {
 public:
  Told& of(const Key& key, Told first) {
    const auto [at, is_new] = place_.try_emplace(key, list_.size());
    if (is_new) list_.push_back(std::move(first));
    return list_[at->second];
  }
  // Largest first; equals stay in their order.
  template <class Less>
  [[nodiscard]] std::vector<Told> sorted(const Less& is_less) {
    std::stable_sort(list_.begin(), list_.end(),
                     [&](const Told& a, const Told& b) { return is_less(b, a); });
    return std::move(list_);
  }

 private:
  std::map<Key, size_t> place_;
  std::vector<Told> list_;
};

struct StepSums {
  Sums<std::string, OpTime> times;
  // By op: the limits of runs that memory limits, less those of the others.
  std::map<std::string, double> memory_less_arithmetic;
  Sums<std::vector<std::string>, MergedOps> merged;
  Sums<std::pair<std::string, std::string>, ApartOps> apart;
};

// What a node costs, worked out once for equal nodes.
struct NodeCost {
  Cost cost;
  DType type = DType::f32;  // of what it multiplies
  double seconds = 0;       // by itself
  RowwiseForm row_form;
};

std::string place_of(const plan::Op& op) { return op.scope.str(); }

class ProgramTeller {
 public:
  // `runs`: of the program in an update, and of what the first of two passes leaves out.
  ProgramTeller(const choose::PlannedProgram& program, const compile::FusionLevels& levels,
                const Machine::Impl& machine, std::pair<int64_t, int64_t> runs, StepSums& sums)
      : graph_(program.graph),
        lowered_(program.lowered),
        plan_(program.plan),
        levels_(levels),
        backend_(*machine.backend),
        limits_(machine.limits),
        runs_(runs),
        classes_(program.graph, NeutralAttrs::do_not_count),
        sums_(sums) {
    for (const plan::Step& step : plan_.steps) {
      schedule_.push_back(step.op);
      fused_.push_back(step.fused);
    }
    reads_.emplace(problem(), schedule_);
  }

  void tell() {
    std::vector<double> saved_bytes(plan_.steps.size(), 0);
    for (const plan::RowRun& run : plan::row_runs(problem(), schedule_, fused_)) {
      for (size_t i = 0; i < run.saved_bytes.size(); ++i)
        saved_bytes[static_cast<size_t>(run.first) + i] += static_cast<double>(run.saved_bytes[i]);
    }
    double seconds = 0;
    for (int32_t at = 0; at < steps();) {
      stop_point();
      int32_t end = at + 1;
      while (end < steps() && plan_.steps[end].fused != Fused::no) ++end;
      for (int32_t step = at; step < end; ++step) {
        double& saved = saved_bytes[static_cast<size_t>(step)];
        saved += bytes_inside(plan_.steps[step].op);
        if (plan_.steps[step].fused == Fused::sums) saved += bytes_of_sum(op_at(step));
        tell_time(step, saved);
        tell_off(step);
        seconds += plan::seconds_of(problem(), plan_.steps[step]);
      }
      tell_kernel(at, end, saved_bytes);
      at = end;
    }
    tell_kept(plan_.seconds - seconds);
  }

 private:
  [[nodiscard]] const plan::Problem& problem() const { return lowered_.problem; }
  [[nodiscard]] int32_t steps() const { return static_cast<int32_t>(plan_.steps.size()); }
  [[nodiscard]] const plan::Op& op_at(int32_t step) const {
    return problem().ops[plan_.steps[step].op];
  }
  [[nodiscard]] int64_t runs_of(const plan::Op& op) const {
    return choose::is_left_out_first(problem(), op) ? runs_.second : runs_.first;
  }

  const NodeCost& cost_of(NodeId id) {
    const size_t number = classes_.class_of(id);
    if (number < costs_.size()) return costs_[number];
    const NodeSpec spec = spec_of(graph_, id);
    KernelChoice choice = backend_.select(spec);
    NodeCost found{.cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs}),
                   .seconds = choice.seconds,
                   .row_form = std::move(choice.row_form)};
    for (const TensorType& type : spec.inputs.given()) {
      if (is_half(type.dtype)) found.type = type.dtype;
    }
    costs_.push_back(std::move(found));
    return costs_.back();
  }

  // The second of two nodes of one op finds in a cache what it shares with the first, where both
  // are a row program.
  double bytes_inside(plan::OpId id) {
    const int32_t by_rows = lowered_.nodes_by_rows[id];
    if (!runtime::is_program_by_itself(problem().ops[id], by_rows)) return 0;
    const std::vector<NodeId>& nodes = lowered_.nodes_of_op[id];
    std::set<plan::StorageId> near;
    double bytes = 0;
    for (size_t i = nodes.size() - static_cast<size_t>(by_rows); i < nodes.size(); ++i) {
      const Node& node = graph_.node(nodes[i]);
      const RowwiseForm& form = cost_of(nodes[i]).row_form;
      const auto count = [&](const std::vector<ValueId>& values, const std::vector<int64_t>& rows) {
        for (size_t v = 0; v < values.size(); ++v) {
          if (values[v] == kNone || rows[v] == 0) continue;
          if (!near.insert(lowered_.storage_of_value[values[v]]).second)
            bytes += static_cast<double>(rows[v] * form.grid.rows);
        }
      };
      count(node.inputs, form.inputs);
      count(node.outputs, form.outputs);
    }
    return bytes;
  }

  // One that goes on where another has ended neither reads nor writes the sum.
  [[nodiscard]] double bytes_of_sum(const plan::Op& op) const {
    double bytes = 0;
    for (const plan::StorageId sum : op.outputs)
      bytes += 2 * static_cast<double>(problem().storages[sum].bytes);
    return bytes;
  }

  [[nodiscard]] double operand_bytes(const plan::Op& op) const {
    std::set<plan::StorageId> operands(op.inputs.begin(), op.inputs.end());
    operands.insert(op.outputs.begin(), op.outputs.end());
    double bytes = 0;
    for (const plan::StorageId each : operands)
      bytes += static_cast<double>(problem().storages[each].bytes);
    return bytes;
  }

  void tell_time(int32_t step, double saved_bytes) {
    const plan::Op& op = op_at(step);
    const auto runs = static_cast<double>(runs_of(op));
    double arithmetic = 0;
    double flops = 0;
    double bytes = 0;
    for (const NodeId id : lowered_.nodes_of_op[plan_.steps[step].op]) {
      const NodeCost& node = cost_of(id);
      arithmetic += limits_.arithmetic_seconds(node.cost.flops, node.type);
      flops += node.cost.flops;
      bytes += node.cost.bytes_read + node.cost.bytes_written;
    }
    bytes = std::max(0.0, bytes - saved_bytes);
    const double memory =
        limits_.memory_seconds(bytes, backend_.share_from_memory(operand_bytes(op)));
    OpTime& told = sums_.times.of(op.name, {.op = op.name});
    told.runs += runs_of(op);
    told.seconds += runs * plan::seconds_of(problem(), plan_.steps[step]);
    told.flops += runs * flops;
    told.bytes += runs * bytes;
    told.limit_seconds += runs * std::max(arithmetic, memory);
    double& balance = sums_.memory_less_arithmetic[op.name];
    balance += runs * (memory >= arithmetic ? memory : -arithmetic);
    told.is_limited_by_memory = balance >= 0;
  }

  // What lives across the loss goes to memory and back.
  void tell_kept(double seconds) {
    const double per_byte = problem().kept_seconds_per_byte;
    if (per_byte <= 0 || seconds <= 1e-9 * plan_.seconds) return;
    const auto runs = static_cast<double>(runs_.first);
    OpTime& told = sums_.times.of("", {.op = "(kept values to memory and back)"});
    told.runs += runs_.first;
    told.seconds += runs * seconds;
    told.bytes += runs * 2 * seconds / per_byte;
    told.limit_seconds += runs * seconds;
    told.is_limited_by_memory = true;
  }

  // The steps [first, end) are one kernel, or a step by itself.
  void tell_kernel(int32_t first, int32_t end, const std::vector<double>& saved_bytes) {
    const plan::Op& op = op_at(first);
    const bool is_program =
        runtime::is_program_by_itself(op, lowered_.nodes_by_rows[plan_.steps[first].op]);
    if (end - first == 1 && !is_program) return tell_apart(first);
    std::vector<std::string> names;
    double saved = 0;
    for (int32_t step = first; step < end; ++step) {
      saved += saved_bytes[static_cast<size_t>(step)];
      if (step == first || plan_.steps[step].fused == Fused::rows)
        names.push_back(op_at(step).name);
    }
    MergedOps& told = sums_.merged.of(names, {.ops = names, .first = place_of(op)});
    told.kernels += runs_of(op);
    told.runs += (end - first) * runs_of(op);
    told.saved_bytes += saved * static_cast<double>(runs_of(op));
  }

  void tell_apart(int32_t step) {
    const plan::Op& op = op_at(step);
    if (op.rowwise->form.is_given())
      add_apart(op, op.name, reason_beside(step), plan::seconds_of(problem(), plan_.steps[step]));
  }

  // Where an op has several nodes, those behind the last that is off may still be one kernel, if
  // the level of a product before them is full.
  void tell_off(int32_t step) {
    const plan::Step& at = plan_.steps[step];
    const std::vector<NodeId>& nodes = lowered_.nodes_of_op[at.op];
    const size_t apart = nodes.size() - static_cast<size_t>(lowered_.nodes_by_rows[at.op]);
    const Node* product = nullptr;  // that nothing may follow in one kernel
    for (size_t i = 0; i < apart; ++i) {
      const Node& node = graph_.node(nodes[i]);
      const NodeCost& cost = cost_of(nodes[i]);
      const compile::FusionLevel level = levels_.level_of(node);
      if (!cost.row_form.is_given()) {
        if (level != compile::FusionLevel::full) product = &node;
        continue;
      }
      const bool is_off = level == compile::FusionLevel::off;
      if (!is_off && product == nullptr) continue;
      const std::string reason =
          is_off ? level_text(node) : level_text(*product) + ", for " + *product->op->name;
      add_apart(op_at(step), *node.op->name, reason,
                nodes.size() == 1 ? plan::seconds_of(problem(), at) : cost.seconds);
    }
  }

  [[nodiscard]] std::string level_text(const Node& node) const {
    const size_t rule = levels_.rule_of(node);
    const std::string level = compile::word_of(levels_.level_of(node));
    if (rule == levels_.overrides.size()) return "fusion is " + level;
    return "fusion_overrides: '" + levels_.overrides[rule].match + "' is " + level;
  }

  void add_apart(const plan::Op& op, const std::string& name, const std::string& reason,
                 double seconds) {
    ApartOps& told =
        sums_.apart.of({name, reason}, {.op = name, .first = place_of(op), .reason = reason});
    told.runs += runs_of(op);
    told.seconds += static_cast<double>(runs_of(op)) * seconds;
  }

  // The step before and the one behind: what the nearer of joining lacks.
  std::string reason_beside(int32_t step) {
    const RowJoin before = step == 0 ? RowJoin::is_not_by_rows : join(step - 1, step);
    const RowJoin behind = join(step, step + 1);
    const auto is_either = [&](RowJoin why) { return before == why || behind == why; };
    if (is_either(RowJoin::joins))
      return reason_against_kernel(behind == RowJoin::joins ? step + 1 : step);
    if (is_either(RowJoin::is_cut_apart))
      return "its neighbours have other rows, or need all of it";
    if (is_either(RowJoin::has_head)) return "its neighbour begins with a product";
    if (is_either(RowJoin::shares_nothing)) return "its neighbours read and make nothing of its";
    return "its neighbours are not computed by rows";
  }

  // `step` could be one kernel with the step before. Equal pairs are looked at once.
  std::string reason_against_kernel(int32_t step) {
    const auto [known, is_new] =
        against_.try_emplace({op_at(step - 1).name, op_at(step).name}, std::string());
    if (!is_new) return known->second;
    plan::FusedSteps fused = fused_;
    fused[static_cast<size_t>(step)] = Fused::rows;
    const bool fits = plan::are_row_runs(problem(), schedule_, fused) &&
                      plan::loads_of(problem(), schedule_, fused).load_bytes <= plan_.load_bytes;
    known->second = fits ? "the fastest plan that fits does without"
                         : "one kernel would need more bytes than the plan has";
    return known->second;
  }

  // Whether a step would join the one before, with all that is one kernel with that.
  RowJoin join(int32_t before, int32_t step) {
    if (step >= steps()) return RowJoin::is_not_by_rows;
    int32_t first = before;
    while (first > 0 && plan_.steps[first].fused == Fused::rows) --first;
    plan::RowRunBuilder builder(problem(), schedule_, *reads_, first);
    for (int32_t at = first; at < step; ++at) {
      if (const RowJoin why = builder.join(); why != RowJoin::joins) return why;
    }
    return builder.join();
  }

  const Graph& graph_;
  const runtime::Lowered& lowered_;
  const plan::Plan& plan_;
  const compile::FusionLevels& levels_;
  const Backend& backend_;
  const MachineLimits& limits_;
  const std::pair<int64_t, int64_t> runs_;
  NodeClasses classes_;
  std::vector<NodeCost> costs_;  // by class
  StepSums& sums_;
  std::vector<plan::OpId> schedule_;
  plan::FusedSteps fused_;
  std::optional<plan::LastReads> reads_;
  std::map<std::pair<std::string, std::string>, std::string> against_;  // by names of two steps
};

}  // namespace

void explain_step(const choose::RunPlan& run, const compile::FusionLevels& levels,
                  const Machine::Impl& machine, Explanation& explanation) {
  StepSums sums;
  const auto tell = [&](const choose::PlannedProgram& program, std::pair<int64_t, int64_t> runs) {
    ProgramTeller(program, levels, machine, runs, sums).tell();
  };
  if (run.train.empty()) {
    tell(run.eval.back(), {1, 1});
  } else {
    const int64_t runs = run.has_two_passes ? 2 : run.accumulation_steps;
    tell(run.train.back(), {runs, run.has_two_passes ? 1 : runs});
    if (run.prologue) tell(*run.prologue, {1, 1});
    if (run.update) tell(*run.update, {1, 1});
  }
  explanation.step =
      sums.times.sorted([](const OpTime& a, const OpTime& b) { return a.seconds < b.seconds; });
  explanation.merged = sums.merged.sorted(
      [](const MergedOps& a, const MergedOps& b) { return a.saved_bytes < b.saved_bytes; });
  explanation.apart =
      sums.apart.sorted([](const ApartOps& a, const ApartOps& b) { return a.seconds < b.seconds; });
}

}  // namespace snug::session
