// SPDX-License-Identifier: Apache-2.0
// plan_run and plan_levers: the plan of a run, with or without its data, and what would change it.
#include "base/float_mode.h"
#include "base/stop.h"
#include "run_rows/streams.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {
namespace {

// Opens the run and calls `made` with it, leaving nothing behind where it is cancelled.
template <class Made>
auto with_setup(const RunConfig& given, const RunOptions& options, const Made& made) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  RunConfig config = given;
  config.require({"model"});
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_said);
  run_rows::WorkFolder work(config);
  const run_rows::CopiedStreams streams(config, options, work,
                                        {&RunConfig::train_file, &RunConfig::validation_file},
                                        run_rows::CopiedStreams::Copies::are_removed);
  const Machine machine = verbs::open_machine(config, options, verbs::BudgetUse::plans);
  verbs::RunSetup setup = verbs::open_setup(config, options, work, {});
  const std::function<void(const Error&)> leave = [&](const Error& heard) {
    work.remove();
    options.callbacks.on_cancelled(heard);
  };
  const StopScope planning({.cancel = options.cancel,
                            .deadline = {},
                            .on_cancel = options.callbacks.on_cancelled ? &leave : nullptr});
  return made(config, setup, machine);
}

}  // namespace

PlanReport plan_run(const RunConfig& given, const RunOptions& options) {
  return with_setup(
      given, options, [&](RunConfig& config, verbs::RunSetup& setup, const Machine& machine) {
        const verbs::TakenLevers taken = verbs::take_levers(config, options, machine, setup);
        PlanReport report =
            verbs::plan_setup(config, options, setup, machine, config.micro_batch_size).report;
        verbs::note_levers(taken, report);
        return report;
      });
}

std::vector<LeverPlan> plan_levers(const RunConfig& given, const RunOptions& options) {
  return with_setup(
      given, options, [&](const RunConfig& config, verbs::RunSetup& setup, const Machine& machine) {
        session::RunSession session =
            verbs::run_session(config, options, setup, machine, config.micro_batch_size);
        session.options.on_planning = verbs::planning_sink(options);
        return session::plan_levers(*setup.network, session, config.allow);
      });
}

}  // namespace snug
