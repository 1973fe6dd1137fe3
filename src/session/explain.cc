// SPDX-License-Identifier: Apache-2.0
#include "snug/explain.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/float_mode.h"
#include "base/stop.h"
#include "base/units.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "plan/problem/json.h"
#include "plan/problem/validate.h"
#include "session/session_plan.h"
#include "snug/error.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

// Gathers stages; what it does itself (verifying, printing) is nobody's time.
class Stages {
 public:
  explicit Stages(bool has_texts) : has_texts_(has_texts) {}
  void begin() { start_ = Clock::now(); }
  /// Ends a stage and begins the next. `text` makes its text.
  template <class Text>
  void end(const std::string& name, const std::string& result, const Text& text) {
    end(name, seconds(), result, text);
  }
  template <class Text>
  void end(const std::string& name, double taken, const std::string& result, const Text& text) {
    explanation_.stages.push_back({.name = name,
                                   .seconds = taken,
                                   .result = result,
                                   .text = has_texts_ ? text() : std::string()});
    begin();
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  Explanation take() { return std::move(explanation_); }

 private:
  Explanation explanation_;
  bool has_texts_;
  Clock::time_point start_ = Clock::now();
};

std::string nothing() { return {}; }

std::string sizes_of(const Graph& graph) {
  int64_t in_step = 0;
  for (const Value& value : graph.values) in_step += value.kind == ValueKind::computed ? 1 : 0;
  const auto residents = static_cast<int64_t>(graph.values.size()) - in_step;
  return fmt::format("{} ops, {} values in the step, {} that stay; verified", graph.nodes.size(),
                     in_step, residents);
}

std::string split_text(const train::RunPlan& run) {
  const std::string splits = run.accumulation_steps == 1
                                 ? "one micro-batch"
                                 : std::to_string(run.accumulation_steps) + " micro-batches";
  return fmt::format("{} of {} rows", splits, run.micro_batch);
}

int64_t most_scratch(const plan::Problem& problem) {
  int64_t most = 0;
  for (const plan::Op& op : problem.ops) most = std::max(most, op.scratch_bytes);
  return most;
}

}  // namespace

Explanation explain_network(const Network& network, const SessionOptions& options, bool has_texts) {
  return explain_network(network, RunSession{.options = options}, has_texts);
}

Explanation explain_network(const Network& network, const RunSession& session, bool has_texts) {
  const SessionOptions& options = session.options;
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "explain"});
  Stages stages(has_texts);
  // What is told first is of the split that the planner chooses, so the plan comes first here and
  // is told in its place.
  const SessionPlan plan = plan_session(network, session);
  const SessionPlan::Impl& made = *plan.impl();
  const Backend& backend = *made.machine.impl().backend;
  const train::RunPlan& run = made.plan;
  const double planning = stages.seconds();
  const train::PlannedProgram& planned = run.train.back();
  stages.begin();
  const PipelineHooks hooks{.after_pass = [&](const std::string& name, const Graph& graph) {
    const double taken = stages.seconds();
    verify(graph);
    stages.end(name, taken, sizes_of(graph), [&] { return print(graph); });
  }};
  train::Recipe recipe = made.resolved.recipe;
  recipe.has_two_passes = run.has_two_passes;
  recipe.packed = run.packed;
  const Graph graph = train::build_train_graph(made.def, recipe, {run.micro_batch, planned.length},
                                               run.accumulation_steps, hooks);
  stages.begin();
  const Lowered lowered = lower(graph, backend, run.accumulation_steps);
  stages.end(
      "kernels",
      fmt::format("{} kernel calls, {} storages; {} of scratch at most", lowered.problem.ops.size(),
                  lowered.problem.storages.size(), format_bytes(most_scratch(lowered.problem))),
      [&] { return plan::to_json(lowered.problem); });
  const std::vector<std::string> errors = plan::check(lowered.problem, planned.plan);
  if (!errors.empty())
    throw Error(ErrorCode::internal, "plan", errors.front(), "please report this with the command");
  stages.end(
      "plan", planning,
      fmt::format("{}: {}, {} steps, arena {}; checked", split_text(run), planned.plan.strategy,
                  planned.plan.steps.size(), format_bytes(planned.plan.arena_bytes)),
      [&] { return plan::to_json(planned.plan); });
  if (options.process_bytes > 0) malloc_trim(0);
  stages.begin();
  const train::Engine engine(run, backend);
  stages.end("memory",
             fmt::format("{} programs bound to {}: {} that stay and the arena", run.report.programs,
                         format_bytes(run.residents.total_bytes() + run.arena_bytes),
                         format_bytes(run.residents.total_bytes())),
             nothing);
  return stages.take();
}

std::string Explanation::to_text() const {
  std::string text;
  double sum = 0;
  for (const Stage& stage : stages) {
    text += fmt::format("{:<16} {:>9.1f} ms   {}\n", stage.name, stage.seconds * 1e3, stage.result);
    sum += stage.seconds;
  }
  text += fmt::format("{:<16} {:>9.1f} ms\n", "all", sum * 1e3);
  for (const Stage& stage : stages) {
    if (!stage.text.empty()) text += fmt::format("\n== {}\n{}\n", stage.name, stage.text);
  }
  return text;
}

std::string Explanation::to_json() const {
  nlohmann::ordered_json json = {{"stages", nlohmann::ordered_json::array()}};
  for (const Stage& stage : stages) {
    json["stages"].push_back(
        {{"name", stage.name}, {"seconds", stage.seconds}, {"result", stage.result}});
    if (!stage.text.empty()) json["stages"].back()["text"] = stage.text;
  }
  return json.dump(2);
}

}  // namespace snug
