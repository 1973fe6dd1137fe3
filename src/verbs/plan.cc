// SPDX-License-Identifier: Apache-2.0
// plan_run: the plan of a run, with or without its data.
#include "base/stop.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {

PlanReport plan_run(const RunConfig& config, const RunOptions& options) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  config.require({"model"});
  (void)train::checked_budget(config, options, train::AboveLimit::is_said);
  train::WorkFolder work(config);
  const Machine machine(config.threads, options.profile_folder);
  const train::RunSetup setup = train::open_setup(config, options, work, {});
  const std::function<void(const Error&)> leave = [&](const Error& heard) {
    work.remove();
    options.callbacks.on_cancelled(heard);
  };
  const StopScope planning({.cancel = options.cancel,
                            .deadline = {},
                            .on_cancel = options.callbacks.on_cancelled ? &leave : nullptr});
  return train::plan_setup(config, options, setup, machine, config.micro_batch_size).report;
}

}  // namespace snug
