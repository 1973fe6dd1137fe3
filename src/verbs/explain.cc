// SPDX-License-Identifier: Apache-2.0
// explain_run: the whole compilation of a run, stage by stage.
#include <fmt/format.h>

#include <chrono>

#include "base/float_mode.h"
#include "base/stop.h"
#include "run_rows/streams.h"
#include "snug/instruction_set.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"

namespace snug {

Explanation explain_run(const RunConfig& given, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "explain"});
  RunConfig config = given;
  config.require({"model"});
  Explanation all;
  auto start = std::chrono::steady_clock::now();
  const auto end = [&](const std::string& name, const std::string& result) -> Stage& {
    const auto now = std::chrono::steady_clock::now();
    all.stages.push_back({.name = name,
                          .seconds = std::chrono::duration<double>(now - start).count(),
                          .result = result,
                          .text = {}});
    start = now;
    return all.stages.back();
  };
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_refused);
  const run_rows::WorkFolder work(config);
  const run_rows::CopiedStreams streams(config, options, work,
                                        {&RunConfig::train_file, &RunConfig::validation_file},
                                        run_rows::CopiedStreams::Copies::are_removed);
  const Machine machine = verbs::open_machine(config, options, verbs::BudgetUse::plans);
  end("machine", fmt::format("the {} backend, {} threads, {}", machine.backend(), machine.threads(),
                             to_string(instruction_set())));

  verbs::RunSetup setup = verbs::open_setup(config, options, work, {});
  (void)verbs::take_levers(config, options, machine, setup);
  const session::RunSession session =
      verbs::run_session(config, options, setup, machine, config.micro_batch_size);
  Stage& read = end("model and data", fmt::format("{} for {}; longest rows: {}", setup.model.name,
                                                  *setup.model.task->name,
                                                  to_string(session.options.lengths.back())));
  if (options.wants_stage_texts) read.text = setup.model.config_json();
  Explanation compiled =
      session::explain_network(*setup.network, session, options.wants_stage_texts);
  compiled.stages.insert(compiled.stages.begin(), all.stages.begin(), all.stages.end());
  return compiled;
}

}  // namespace snug
