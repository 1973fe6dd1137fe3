// SPDX-License-Identifier: Apache-2.0
// Predicted and measured time of a training program, by kind of op; first runs and repeated ones
// apart.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_profile.h"
#include "backend/cpu/measure_profile.h"
#include "base/threads.h"
#include "choose/choose.h"
#include "compile/compile.h"
#include "compile/value_names.h"
#include "models/model.h"
#include "run_model/model_network.h"
#include "run_model/read_model.h"
#include "session/engine.h"
#include "session/session_plan.h"
#include "snug/memory.h"
#include "train/run_recipe.h"

namespace {

using namespace snug;

struct Sum {
  int64_t runs = 0;
  double planned = 0;
  double measured = 0;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// The rate, 1 - beta1 and 1 - beta2 of a first step, which is not skipped (optim::fed_values).
constexpr float kFirstStep[] = {1e-6F, 0.1F, 0.001F, 0};

// No token is masked, and no number special: the first step of a training at a small rate, so that
// no weight becomes a NaN, for which the optimizer does nothing. Tokens are any of the vocabulary:
// the rows of a table lie apart.
void fill_residents(session::Engine& engine, int64_t vocabulary) {
  std::minstd_rand random(1);
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (entry.type.dtype == DType::boolean) {
      std::ranges::fill(engine.edit<std::byte>(name), std::byte{1});
    } else if (name == models::kInputIds) {
      for (int32_t& id : engine.edit<int32_t>(name))
        id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
    } else if (entry.type.dtype == DType::f32 && entry.kind != ValueKind::state) {
      const auto values = engine.edit<float>(name);
      if (name.starts_with(compile::kHyperName)) {
        std::ranges::copy(kFirstStep, values.begin());
        continue;
      }
      const int least = is_of_model(entry.kind) ? -8 : 1;
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 0.01F * static_cast<float>(static_cast<int>(i % 17) + least);
    }
  }
}

void print_row(const std::string& name, const Sum& sum) {
  std::printf("%-44s %6ld %10.3f %10.3f %7.2f\n", name.c_str(), sum.runs, 1e3 * sum.planned,
              1e3 * sum.measured, sum.measured > 0 ? sum.planned / sum.measured : 0.0);
}

// One budget: its program, and what was measured of it.
struct Case {
  explicit Case(choose::RunPlan made) : plan(std::move(made)) {}
  choose::RunPlan plan;
  std::unique_ptr<session::Engine> engine = nullptr;
  std::vector<std::vector<double>> seconds = {};  // by step
};

void run_once(Case& each, runtime::Trace& trace) {
  each.engine->train(0).run_traced(trace);
  each.seconds.resize(trace.rows.size());
  for (size_t step = 0; step < trace.rows.size(); ++step)
    each.seconds[step].push_back(trace.rows[step].seconds);
}

// The op and, if wanted, the shapes that it reads.
std::string row_name(const choose::PlannedProgram& program, plan::OpId id, bool has_shapes) {
  std::string name = program.lowered.problem.ops[id].name;
  if (!has_shapes) return name;
  for (const NodeId node : program.lowered.nodes_of_op[id]) {
    for (const TensorType& type : spec_of(program.graph, node).inputs.given()) {
      name += type.shape.empty() ? " ." : " ";
      for (size_t i = 0; i < type.shape.size(); ++i)
        name += (i > 0 ? "x" : "") + std::to_string(type.shape[i]);
    }
  }
  return name;
}

// Kinds of op that take less of a step than this share, or in all less than these seconds, are not
// judged: how the machine places cores and pages moves them by several times their time.
constexpr double kJudgedShare = 1.0 / 250;
constexpr double kJudgedSeconds = 100e-6;

// Prints planned and measured time by kind of op, and returns how many of the kinds that are judged
// were planned wrong by more than the factor `within`.
int print_ops(const Case& each, double within, bool has_shapes) {
  const plan::Problem& problem = each.plan.train.front().lowered.problem;
  const std::vector<plan::Step>& steps = each.plan.train.front().plan.steps;
  std::map<std::string, Sum> by_op;
  std::map<std::string, Sum> by_phase;
  Sum all;
  IdVector<plan::OpId, bool> has_run(problem.ops.size(), false);
  for (size_t step = 0; step < steps.size(); ++step) {
    const plan::OpId id = steps[step].op;
    const plan::Op& op = problem.ops[id];
    const bool again = has_run[id];
    has_run[id] = true;
    const std::string phase = again ? "again" : to_string(static_cast<Phase>(op.phase));
    const std::string name = row_name(each.plan.train.front(), id, has_shapes);
    for (Sum* sum : {&by_op[name + (again ? " again" : "")], &by_phase["-- " + phase], &all}) {
      ++sum->runs;
      sum->planned += op.seconds;
      sum->measured += median(each.seconds[step]);
    }
  }
  std::vector<std::pair<std::string, Sum>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.measured > b.second.measured; });
  std::printf("%-44s %6s %10s %10s %7s\n", "op", "runs", "planned ms", "run ms", "ratio");
  for (const auto& [name, sum] : rows) print_row(name, sum);
  for (const auto& [phase, sum] : by_phase) print_row(phase, sum);
  print_row("-- all", all);
  int wrong = 0;
  for (const auto& [name, sum] : rows) {
    const double ratio = sum.planned / std::max(sum.measured, 1e-9);
    const double larger = std::max(sum.planned, sum.measured);
    const bool is_judged =
        larger >= kJudgedSeconds && larger >= kJudgedShare * std::max(all.planned, all.measured);
    if (!is_judged || (ratio <= within && ratio >= 1 / within)) continue;
    std::printf("%s: planned wrong by more than a factor of %g\n", name.c_str(), within);
    ++wrong;
  }
  return wrong;
}

// With the price of what is kept, as the planner compares schedules.
double planned_seconds(const Case& each) { return each.plan.train.front().plan.seconds; }

// Every step's median over the rounds, so that a round which other work disturbed does not count.
double run_seconds(const Case& each) {
  double seconds = 0;
  for (const std::vector<double>& of_step : each.seconds) seconds += median(of_step);
  return seconds;
}

void print_overheads(const std::vector<Case>& cases) {
  std::printf("\n%10s %10s %10s\n", "arena MB", "planned %", "run %");
  for (const Case& each : cases) {
    std::printf("%10.1f %10.1f %10.1f\n",
                1e-6 * static_cast<double>(each.plan.train.front().plan.arena_bytes),
                100 * (planned_seconds(each) / planned_seconds(cases.front()) - 1),
                100 * (run_seconds(each) / run_seconds(cases.front()) - 1));
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) {
    std::fprintf(
        stderr,
        "usage: snug_bench_costs MODEL BATCH LENGTH [--key value ...] [--profile FILE] "
        "[--rounds N] [--shapes yes] [--packed no] [--within FACTOR] [--memory BYTES]...\n"
        "Runs one training program in each of the budgets, in turns, and prints, by op, "
        "the planned and the measured milliseconds, repeated runs apart; then the "
        "overhead of each budget, planned and run, beside the first. Without --profile "
        "the speeds of this machine are measured anew. --shapes yes: by what the ops read, too. "
        "--packed no: "
        "no weight is packed once an update. "
        "With --within, a kind of op that takes 100 us and 1/250 of the step or more and was "
        "planned wrong by more is exit 1.\n");
    return 1;
  }
  RunConfig config;
  config.set("model", words[0]);
  if (!words[0].starts_with("resnet") && !words[0].starts_with("vgg"))
    config.set("vocab_size", "8192");
  std::string profile;
  int rounds = 7;
  double within = 1e9;
  bool has_shapes = false;
  std::optional<bool> packs_weights;
  std::vector<std::string> budgets;
  for (size_t i = 3; i + 1 < words.size(); i += 2) {
    if (words[i] == "--memory") {
      budgets.push_back(words[i + 1]);
    } else if (words[i] == "--profile") {
      profile = words[i + 1];
    } else if (words[i] == "--rounds") {
      rounds = std::stoi(words[i + 1]);
    } else if (words[i] == "--shapes") {
      has_shapes = words[i + 1] == "yes";
    } else if (words[i] == "--packed") {
      packs_weights = words[i + 1] == "yes";
    } else if (words[i] == "--within") {
      within = std::stod(words[i + 1]);
    } else {
      config.set(words[i].substr(2), words[i + 1]);
    }
  }
  if (budgets.empty()) budgets.emplace_back("1TiB");
  const int64_t batch = std::stoll(words[1]);
  run_model::Model model = run_model::read_model(config);
  run_model::fit_model(model, config, {});
  const int threads = available_threads();
  const std::filesystem::path file = profile.empty() ? "" : std::filesystem::absolute(profile);
  const auto backend = make_cpu_backend(
      {.threads = threads,
       .profile = profile.empty()
                      ? measure_profile(threads)
                      : load_or_measure_profile(
                            {.folder = file.parent_path(), .file = file.filename()}, threads)});
  const session::ResolvedSpec resolved = session::resolve(train::training_spec(config, 0));
  std::vector<Case> cases;
  for (const std::string& budget : budgets) {
    cases.emplace_back(choose::make_run_plan(
        {.network = session::changed_network(
             network::describe_network(run_model::network_of(model), {}).def, resolved),
         .recipe = resolved.recipe,
         .global_batch = batch,
         .micro_batch = batch,
         .lengths = {std::stoll(words[2])},
         .strategy = config.recompute.strategy,
         .allow_coupled_split = false,
         .packs_weights = packs_weights,
         .budget_bytes = resolve_memory(parse_memory(budget)),
         .process_bytes = 0,
         .startup_bytes = 0,
         .trains = true},
        *backend));
  }
  for (Case& each : cases) {
    each.engine = std::make_unique<session::Engine>(each.plan, *backend);
    fill_residents(*each.engine, std::max<int64_t>(model.traits.vocab_size, 1));
  }
  runtime::Trace trace;
  for (int i = 0; i < rounds; ++i) {
    for (Case& each : cases) run_once(each, trace);
  }
  int wrong = 0;
  for (const Case& each : cases) wrong += print_ops(each, within, has_shapes);
  if (cases.size() > 1) print_overheads(cases);
  return wrong > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) { return run({argv + 1, argv + argc}); }
