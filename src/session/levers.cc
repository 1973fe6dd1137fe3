// SPDX-License-Identifier: Apache-2.0
// Levers of a run, each planned as a run with its keys would be.
#include "choose/levers.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/float_mode.h"
#include "base/stop.h"
#include "session/machine.h"
#include "session/session_plan.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug::session {
namespace {

using choose::Lever;
using choose::LeverChoice;
using choose::RunPlanRequest;

ChangedRun changed_run(const Network& network, const RunSession& session, const LeverKeys& keys) {
  if (session.changed) return session.changed(keys);
  ChangedRun run{network, session};
  TrainSpec spec = spec::spec_of(session.options);
  for (const auto& [key, value] : keys) spec::set_key(spec, key, value);
  spec::set_spec(spec, run.session.options);
  return run;
}

/// `run` lives as long as the request, which refers to its session: `changed` holds it.
RunPlanRequest request_of(const std::shared_ptr<const ChangedRun>& run) {
  const SessionOptions& options = run->session.options;
  const ResolvedSpec resolved = resolve(spec::spec_of(options));
  const compile::NetworkDef def = changed_network(described(run->network, options).def, resolved);
  RunPlanRequest request = plan_request(def, run->session, resolved, options.micro_batch_size);
  request.changed = [run](const LeverKeys& keys) {
    return request_with(run->network, run->session, keys);
  };
  return request;
}

std::optional<LeverPlan> planned(const RunPlanRequest& base, const LeverChoice& choice,
                                 const Backend& backend) {
  try {
    RunPlanRequest request = choice.keys.empty() ? base : base.changed(choice.keys);
    request.takes_smallest = true;
    request.on_progress = {};
    const PlanReport report = choose::make_run_plan(request, backend).report;
    return LeverPlan{.keys = choice.keys,
                     .planned_peak_bytes = report.planned_peak_bytes,
                     .smallest_budget_bytes = report.smallest_budget_bytes,
                     .step_seconds = report.step_seconds,
                     .changes_result = choice.changes_result,
                     .fits = report.planned_peak_bytes <= base.budget_bytes};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config || choice.keys.empty()) throw;
    return std::nullopt;  // the keys do not go together with the run's
  }
}

class Comparison {
 public:
  Comparison(const Network& network, const RunSession& session)
      : options_(session.options),
        machine_(machine_of(options_)),
        base_(request_of(std::make_shared<const ChangedRun>(ChangedRun{network, session}))),
        levers_(choose::levers_of(base_)) {}

  [[nodiscard]] const std::vector<Lever>& levers() const { return levers_; }

  [[nodiscard]] std::vector<LeverPlan> plan(const std::vector<LeverChoice>& choices) const {
    std::vector<LeverPlan> plans;
    for (size_t i = 0; i < choices.size(); ++i) {
      stop_point();
      if (options_.on_planning)
        options_.on_planning(static_cast<int64_t>(i), static_cast<int64_t>(choices.size()),
                             "comparing levers");
      if (auto found = planned(base_, choices[i], *machine_.impl().backend))
        plans.push_back(std::move(*found));
    }
    return plans;
  }

 private:
  const SessionOptions& options_;
  Machine machine_;
  RunPlanRequest base_;
  std::vector<Lever> levers_;
};

bool is_in(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void check_words(const std::vector<std::string>& allow) {
  for (const std::string& word : allow) {
    if (std::find(kLeverWords.begin(), kLeverWords.end(), word) != kLeverWords.end()) continue;
    std::string known;
    for (const char* each : kLeverWords) known += (known.empty() ? "" : ", ") + std::string(each);
    throw Error(ErrorCode::bad_config, "allow", "there is no lever '" + word + "'",
                "there are: " + known);
  }
}

}  // namespace

}  // namespace snug::session

namespace snug::session {

choose::RunPlanRequest request_with(const Network& network, const RunSession& session,
                                    const LeverKeys& keys) {
  return request_of(std::make_shared<const ChangedRun>(changed_run(network, session, keys)));
}

std::vector<LeverPlan> plan_levers(const Network& network, const RunSession& session,
                                   const std::vector<std::string>& allow) {
  const DefaultFloatMode float_mode;
  check_words(allow);
  const StopScope stop({.cancel = session.options.cancel, .deadline = {}});
  const Comparison comparison(network, session);
  std::vector<LeverChoice> choices = {{}};
  std::vector<const Lever*> together;
  for (const Lever& lever : comparison.levers()) {
    if (!lever.is_compared) continue;
    choices.push_back({lever.settings.front().keys, lever.changes_result, 1});
    // Without a word from the user: one precision, and the optimizer that was asked for.
    const bool is_together =
        allow.empty() ? lever.word != "optim" && lever.word != "fp16" : is_in(allow, lever.word);
    if (!lever.word.empty() && is_together) together.push_back(&lever);
  }
  for (LeverChoice& choice : choose::choices_among(together)) {
    if (choice.levers > 1) choices.push_back(std::move(choice));
  }
  return comparison.plan(choices);
}

std::vector<LeverPlan> plan_allowed_levers(const Network& network, const RunSession& session,
                                           const std::vector<std::string>& allow) {
  const DefaultFloatMode float_mode;
  check_words(allow);
  const StopScope stop({.cancel = session.options.cancel, .deadline = {}});
  const Comparison comparison(network, session);
  std::vector<const Lever*> allowed;
  for (const Lever& lever : comparison.levers()) {
    if (is_in(allow, lever.word)) allowed.push_back(&lever);
  }
  return comparison.plan(choose::choices_among(allowed));
}

}  // namespace snug::session

namespace snug {

std::vector<LeverPlan> plan_levers(const Network& network, const SessionOptions& options,
                                   const std::vector<std::string>& allow) {
  return session::plan_levers(network, session::RunSession{.options = options}, allow);
}

std::vector<LeverPlan> plan_allowed_levers(const Network& network, const SessionOptions& options,
                                           const std::vector<std::string>& allow) {
  return session::plan_allowed_levers(network, session::RunSession{.options = options}, allow);
}

LeverKeys fastest_levers(const Network& network, const SessionOptions& options,
                         const std::vector<std::string>& allow) {
  const DefaultFloatMode float_mode;
  if (allow.empty()) return {};
  const std::vector<LeverPlan> plans = plan_allowed_levers(network, options, allow);
  const LeverPlan* fastest = fastest_fitting(plans);
  return fastest == nullptr ? LeverKeys() : fastest->keys;
}

}  // namespace snug
