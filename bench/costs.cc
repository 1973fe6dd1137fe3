// SPDX-License-Identifier: Apache-2.0
// Predicted and measured time of a training program, by kind of op.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_profile.h"
#include "base/threads.h"
#include "train/engine.h"
#include "train/model.h"
#include "train/recipe.h"

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

// No token is masked, and no number special.
void fill_residents(train::Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (entry.type.dtype == DType::boolean) {
      std::memset(engine.data(name), 1, static_cast<size_t>(entry.bytes));
    } else if (entry.type.dtype == DType::f32) {
      const auto values = engine.values<float>(name);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 0.01F * static_cast<float>(static_cast<int>(i % 17) - 8);
    }
  }
}

void print_row(const std::string& name, const Sum& sum) {
  std::printf("%-30s %6ld %10.3f %10.3f %7.2f\n", name.c_str(), sum.runs, 1e3 * sum.planned,
              1e3 * sum.measured, sum.measured > 0 ? sum.planned / sum.measured : 0.0);
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) {
    std::fprintf(stderr,
                 "usage: snug_bench_costs MODEL BATCH LENGTH [--key value ...]\n"
                 "Runs one training program seven times and prints, by op, the planned and the "
                 "measured milliseconds.\n");
    return 1;
  }
  RunConfig config;
  config.set("model", words[0]);
  if (!words[0].starts_with("resnet") && !words[0].starts_with("vgg"))
    config.set("vocab_size", "8192");
  for (size_t i = 3; i + 1 < words.size(); i += 2) config.set(words[i].substr(2), words[i + 1]);
  const int64_t batch = std::stoll(words[1]);
  const train::Model model = train::resolve_model(config, {});
  const int threads = available_threads();
  const auto backend =
      make_cpu_backend({.threads = threads, .profile = load_or_measure_profile("", threads)});
  const train::RunPlan plan = train::make_run_plan({.model = &model,
                                                    .recipe = train::recipe_of(config),
                                                    .global_batch = batch,
                                                    .micro_batch = batch,
                                                    .lengths = {std::stoll(words[2])},
                                                    .recompute = config.recompute,
                                                    .allow_batch_norm_split = false,
                                                    .budget_bytes = int64_t{1} << 40,
                                                    .process_bytes = 0,
                                                    .startup_bytes = 0,
                                                    .trains = true},
                                                   *backend);
  train::Engine engine(plan, *backend);
  fill_residents(engine);
  const plan::Problem& problem = plan.train.front().lowered.problem;
  std::vector<std::vector<double>> seconds;  // per step
  Trace trace;
  for (int i = 0; i < 7; ++i) {
    engine.train(0).run_traced(trace);
    seconds.resize(trace.rows.size());
    for (size_t step = 0; step < trace.rows.size(); ++step)
      seconds[step].push_back(trace.rows[step].seconds);
  }
  std::map<std::string, Sum> by_op;
  std::map<plan::Phase, Sum> by_phase;
  Sum all;
  for (size_t step = 0; step < trace.rows.size(); ++step) {
    const plan::Op& op = problem.ops[static_cast<size_t>(trace.rows[step].op)];
    for (Sum* sum : {&by_op[op.name], &by_phase[op.phase], &all}) {
      ++sum->runs;
      sum->planned += op.seconds;
      sum->measured += median(seconds[step]);
    }
  }
  std::vector<std::pair<std::string, Sum>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.measured > b.second.measured; });
  std::printf("%-30s %6s %10s %10s %7s\n", "op", "runs", "planned ms", "run ms", "ratio");
  for (const auto& [name, sum] : rows) print_row(name, sum);
  for (const auto& [phase, sum] : by_phase)
    print_row(std::string("-- ") + to_string(static_cast<Phase>(phase)), sum);
  print_row("-- all", all);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run({argv + 1, argv + argc}); }
