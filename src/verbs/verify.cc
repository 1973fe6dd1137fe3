// SPDX-License-Identifier: Apache-2.0
// verify_run: proof on the user's own model and data that plans do not change results and that
// planned is measured.
#include <fmt/format.h>

#include <cstring>

#include "base/float_mode.h"
#include "base/stop.h"
#include "base/units.h"
#include "io/sha256.h"
#include "run_model/model_weights.h"
#include "run_rows/streams.h"
#include "snug/error.h"
#include "train/trainer.h"
#include "verbs/budget_check.h"
#include "verbs/prepare.h"
#include "verbs/split_check.h"

namespace snug {
namespace {

constexpr int64_t kUpdates = 2;

/// What a few updates leave behind: equal outcomes mean equal bits.
struct Outcome {
  std::string weights_and_states;
  std::string losses;
  int64_t planned_arena_bytes = 0;
  int64_t measured_arena_bytes = 0;
  bool operator==(const Outcome& other) const {
    return weights_and_states == other.weights_and_states && losses == other.losses;
  }
};

struct Case {
  const RunConfig& config;
  const RunOptions& options;
  const verbs::RunSetup& setup;
  const Machine& machine;
};

SessionPlan plan_with(const Case& it, const RecomputeSetting& recompute, int64_t micro_batch) {
  RunConfig config = it.config;
  config.recompute = recompute;
  if (micro_batch != config.train_batch_size) config.two_pass_clip.reset();  // of a whole batch
  return verbs::plan_setup(config, it.options, it.setup, it.machine, micro_batch).plan;
}

Outcome run_case(const Case& it, const SessionPlan& plan, bool poisons) {
  Session session(plan);
  session.set_poisoning(poisons);
  run_model::initialize_weights(it.setup.model, session);
  const run_rows::RunData& data = *it.setup.data;
  data::TrainSampler sampler = run_rows::train_sampler(it.config, data);
  train::BatchRows rows(
      {.rows = data.train.get(), .task = it.setup.model.task, .pad_id = data.pad_id()});
  const int64_t total = train::total_steps(it.config, sampler.batches_per_epoch());
  Outcome outcome{.weights_and_states = {},
                  .losses = {},
                  .planned_arena_bytes = plan.report().arena_bytes,
                  .measured_arena_bytes = 0};
  for (int64_t step = 0; step < std::min(kUpdates, total); ++step) {
    rows.begin(sampler.next());
    const StepResult result = session.step(rows);
    outcome.losses += fmt::format("{:a} {:a} ", result.loss, result.grad_norm);
  }
  io::Sha256 hash;
  for (const TensorInfo& tensor : session.tensors()) {
    stop_point();
    session.read_bytes(tensor.name, [&hash](std::span<const std::byte> bytes) {
      hash.update(bytes.data(), std::ssize(bytes));
    });
  }
  outcome.weights_and_states = hash.finish();
  outcome.measured_arena_bytes = session.measured_arena_bytes();
  return outcome;
}

void compare(VerifyReport& report, const std::string& name, const Outcome& wanted,
             const Outcome& found) {
  report.checks.push_back({.name = name,
                           .is_equal = wanted == found,
                           .detail = wanted == found
                                         ? "weights, states, losses and norms are equal to the bit"
                                         : "losses " + wanted.losses + "became " + found.losses,
                           .is_skipped = false});
}

void check_arena(VerifyReport& report, const std::string& name, const Outcome& outcome) {
  report.checks.push_back(
      {.name = name + ": planned arena = measured arena",
       .is_equal = outcome.planned_arena_bytes == outcome.measured_arena_bytes,
       .detail = fmt::format("planned {}, measured {} bytes", outcome.planned_arena_bytes,
                             outcome.measured_arena_bytes),
       .is_skipped = false});
}

/// The plan if it fits the budget.
std::optional<SessionPlan> try_plan(const Case& it, const RecomputeSetting& recompute,
                                    int64_t micro_batch) {
  try {
    return plan_with(it, recompute, micro_batch);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_budget) throw;
    return std::nullopt;
  }
}

/// The plan of another split than `chosen`: the next finer one that fits, else the next coarser.
std::optional<SessionPlan> other_split(const Case& it, int64_t chosen) {
  std::vector<int64_t> sizes = splits_of(it.config.train_batch_size);
  const auto way = [&](int64_t size) {
    return size < chosen ? chosen - size : it.config.train_batch_size + size;
  };
  std::erase(sizes, chosen);
  std::sort(sizes.begin(), sizes.end(), [&](int64_t a, int64_t b) { return way(a) < way(b); });
  for (const int64_t size : sizes) {
    if (auto plan = try_plan(it, it.config.recompute, size)) return plan;
  }
  return std::nullopt;
}

verbs::SplitDifference compare(const Case& it, const SessionPlan& chosen, const SessionPlan& other,
                               const std::string& file) {
  const auto compared = [&](const RunConfig& config, const auto& first, const auto& second) {
    return verbs::compare_splits({config, it.setup, file}, first, second);
  };
  if (verbs::shows_gradients(it.config)) return compared(it.config, chosen, other);
  // The same splits, with an update in which the gradients can be seen.
  const RunConfig config = verbs::with_plain_updates(it.config);
  const Case plain{config, it.options, it.setup, it.machine};
  return compared(config, plan_with(plain, config.recompute, chosen.report().micro_batch),
                  plan_with(plain, config.recompute, other.report().micro_batch));
}

VerifyCheck check_splits(const Case& it, const SessionPlan& chosen,
                         const run_rows::WorkFolder& work) {
  VerifyCheck check{.name = "two splits", .is_equal = true, .detail = {}, .is_skipped = true};
  if (it.setup.model.traits.has_batch_statistics) {
    check.detail = "the model has batch norm: another split has other statistics";
    return check;
  }
  const std::optional<SessionPlan> other =
      it.config.train_batch_size > 1 ? other_split(it, chosen.report().micro_batch) : std::nullopt;
  if (!other) {
    check.detail = it.config.train_batch_size > 1 ? "no other split fits the budget"
                                                  : "a batch of one row has one split";
    return check;
  }
  const verbs::SplitDifference difference = compare(it, chosen, *other, work.path() + "/split");
  check.name = fmt::format("micro-batches of {} against {}", chosen.report().micro_batch,
                           other->report().micro_batch);
  check.is_skipped = false;
  check.is_equal = difference.is_rounding();
  check.detail = fmt::format("gradients of norm {:.3g} differ by {:.3g}; rounding allows {:.3g}",
                             difference.gradient, difference.found, difference.allowed);
  return check;
}

}  // namespace

VerifyReport verify_run(const RunConfig& given, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "verify"});
  RunConfig config = given;
  config.require({"model", "train_file"});
  (void)verbs::checked_budget(config, options, verbs::AboveLimit::is_refused);
  RunConfig scratch = config;
  scratch.output_dir.clear();
  const run_rows::WorkFolder work(scratch);
  const run_rows::CopiedStreams streams(config, options, work,
                                        {&RunConfig::train_file, &RunConfig::validation_file},
                                        run_rows::CopiedStreams::Copies::are_removed);
  const Machine machine = verbs::open_machine(config, options, verbs::BudgetUse::runs);
  verbs::RunSetup setup = verbs::open_setup(config, options, work, {});
  (void)verbs::take_levers(config, options, machine, setup);
  const Case it{config, options, setup, machine};
  const verbs::ReportedPlan planned =
      verbs::plan_setup(config, options, setup, machine, config.micro_batch_size);
  if (options.callbacks.on_plan) options.callbacks.on_plan(planned.report);
  const SessionPlan& chosen = planned.plan;

  VerifyReport report;
  const Outcome plain = run_case(it, chosen, false);
  check_arena(report, "the chosen plan (" + chosen.report().strategy + ")", plain);
  compare(report, "the chosen plan with dead bytes poisoned", plain, run_case(it, chosen, true));
  for (const char* name : {"keep-all", "recompute-all", "sqrt", "speed"}) {
    if (const std::optional<SessionPlan> plan = try_plan(it, {name}, chosen.report().micro_batch)) {
      const Outcome outcome = run_case(it, *plan, false);
      check_arena(report, name, outcome);
      compare(report, std::string("the chosen plan against ") + name, plain, outcome);
    }
  }
  const bool may_split = !setup.model.traits.has_batch_statistics || config.allow_batch_norm_split;
  // Where keep-all does not fit at this micro-batch, it is compared at the largest one where it
  // does.
  for (int64_t size = chosen.report().micro_batch / 2;
       may_split && size >= 1 && !try_plan(it, {"keep-all"}, chosen.report().micro_batch);
       size /= 2) {
    const std::optional<SessionPlan> keep_all = try_plan(it, {"keep-all"}, size);
    if (!keep_all) continue;
    const Outcome wanted = run_case(it, *keep_all, false);
    if (const std::optional<SessionPlan> plan = try_plan(it, {"recompute-all"}, size)) {
      compare(report, fmt::format("keep-all against recompute-all at micro-batch {}", size), wanted,
              run_case(it, *plan, false));
    }
    break;
  }
  report.checks.push_back(check_splits(it, chosen, work));
  return report;
}

}  // namespace snug
