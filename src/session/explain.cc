// SPDX-License-Identifier: Apache-2.0
#include "snug/explain.h"

#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <utility>

#include "base/float_mode.h"
#include "base/stop.h"
#include "base/units.h"
#include "plan/problem/json.h"
#include "plan/problem/validate.h"
#include "session/explain_step.h"
#include "session/session_plan.h"
#include "snug/error.h"

namespace snug::session {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string split_text(const choose::RunPlan& run) {
  const std::string splits = run.accumulation_steps == 1
                                 ? "one micro-batch"
                                 : std::to_string(run.accumulation_steps) + " micro-batches";
  return fmt::format("{} of {} rows", splits, run.micro_batch);
}

}  // namespace

Explanation explain_network(const Network& network, const RunSession& session, bool has_texts) {
  const SessionOptions& options = session.options;
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "explain"});
  Explanation explanation;
  std::vector<Stage>& stages = explanation.stages;
  Clock::time_point start = Clock::now();
  const std::shared_ptr<const SessionPlan::Impl> made =
      make_plan(network, session, options.micro_batch_size,
                has_texts ? compile::Records::texts : compile::Records::results);
  double planning = seconds_since(start);
  const choose::RunPlan& run = made->plan;
  const choose::PlannedProgram& planned = (run.train.empty() ? run.eval : run.train).back();
  for (const compile::StageRecord& stage : planned.stages) {
    stages.push_back({stage.name, stage.seconds, stage.result, stage.text});
    planning -= stage.seconds;  // of the whole, which the plan is the rest of
  }
  const std::vector<std::string> errors = plan::check(planned.lowered.problem, planned.plan);
  if (!errors.empty())
    throw Error(ErrorCode::internal, "plan", errors.front(), "please report this with the command");
  stages.push_back({.name = "plan",
                    .seconds = planning,
                    .result = fmt::format("{}: {}, {} steps, arena {}; checked", split_text(run),
                                          planned.plan.strategy, planned.plan.steps.size(),
                                          format_bytes(planned.plan.arena_bytes)),
                    .text = has_texts ? plan::to_json(planned.plan) : std::string()});
  explain_step(run, made->resolved.fusion, made->machine.impl(), explanation);
  if (options.process_bytes > 0) malloc_trim(0);
  start = Clock::now();
  const Engine engine(run, *made->machine.impl().backend);
  stages.push_back({.name = "memory",
                    .seconds = seconds_since(start),
                    .result = fmt::format(
                        "{} programs bound to {}: {} that stay and the arena", run.report.programs,
                        format_bytes(run.residents.total_bytes() + run.arena_bytes),
                        format_bytes(run.residents.total_bytes())),
                    .text = {}});
  return explanation;
}

}  // namespace snug::session

namespace snug {

Explanation explain_network(const Network& network, const SessionOptions& options, bool has_texts) {
  return session::explain_network(network, session::RunSession{.options = options}, has_texts);
}

}  // namespace snug
