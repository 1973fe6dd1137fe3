// SPDX-License-Identifier: Apache-2.0
// What corpus_test.py runs on each problem of the corpus.
//
//   corpus_tool freeze MODEL BATCH MICRO_BATCH LENGTH [KEY VALUE ...]   a training program as JSON
//   corpus_tool example unet|seq2seq|two_towers    that of a network of examples/cpp
//   corpus_tool frontier FILE          a frozen program: curve and placements
//   corpus_tool remat FILE             a file of `snug solve remat`, a fifth of its best effort
//   corpus_tool joint FILE [best]      such a file, given and free order, at the default effort
//   corpus_tool program FILE [best]    the same of a frozen program
//
// Speeds are the built-in ones, so that nothing depends on the machine. Results are lines "name
// value"; of all of them less is better.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "compile/compile.h"
#include "example_networks.h"
#include "network/facts.h"
#include "plan/frontier/frontier.h"
#include "plan/frontier/remat.h"
#include "plan/improve/bound.h"
#include "plan/problem/json.h"
#include "plan/problem/liveness.h"
#include "run_model/model_network.h"
#include "run_model/read_model.h"
#include "session/resolve.h"
#include "snug/session.h"
#include "solve/remat_file.h"
#include "spec/table.h"
#include "train/run_recipe.h"

namespace {

using namespace snug;

void print(const std::string& name, double value) { std::printf("%s %.9g\n", name.c_str(), value); }

int print_program(const Graph& graph) {
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  std::printf("%s\n", plan::to_json(compile::lower(graph, *backend).problem).c_str());
  return 0;
}

int freeze(const std::vector<std::string>& words) {
  RunConfig config;
  config.set("model", words.at(0));
  for (size_t i = 4; i + 1 < words.size(); i += 2) config.set(words[i], words[i + 1]);
  run_model::Model model = run_model::read_model(config);
  run_model::fit_model(model, config, {});
  const int64_t batch = std::stoll(words.at(1));
  const int64_t micro_batch = std::stoll(words.at(2));
  return print_program(
      compile::build_train_graph(network::describe_network(run_model::network_of(model), {}).def,
                                 session::resolve(train::training_spec(config, 0)).recipe,
                                 {micro_batch, std::stoll(words.at(3))}, batch / micro_batch));
}

// One micro-batch an update, with the recipe of a session that is told nothing else.
int freeze_example(const std::string& name) {
  Network network = corpus::unet_network();
  compile::ProgramShape shape{.rows = 16, .lengths = {}};
  if (name == "seq2seq") {
    network = corpus::seq2seq_network();
    shape = {.rows = 32, .lengths = {{"source", 8}, {"target", 9}}};
  } else if (name == "two_towers") {
    network = corpus::two_towers_network();
    shape = {.rows = 32, .lengths = {}};
  } else if (name != "unet") {
    throw std::runtime_error("no example " + name);
  }
  const SessionOptions options{.batch_rows = shape.rows};
  const std::vector<Lengths> lengths(shape.lengths.empty() ? 0 : 1, shape.lengths);
  return print_program(compile::build_train_graph(network::describe_network(network, lengths).def,
                                                  session::resolve(spec::spec_of(options)).recipe,
                                                  shape, 1));
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int frontier(const std::string& path) {
  const plan::Problem problem = plan::problem_from_json(text_of(path));
  const plan::Frontier found = plan::build_frontier(problem, plan::kQuickFrontier);
  const plan::Plan keep_all = found.keep_all();
  print("smallest_arena_bytes", static_cast<double>(found.smallest().arena_bytes));
  print("keep_all_arena_bytes", static_cast<double>(keep_all.arena_bytes));
  print("smallest_height_over_load", static_cast<double>(found.smallest().arena_bytes) /
                                         static_cast<double>(found.smallest().load_bytes));
  for (const int percent : {80, 60, 40, 30, 20}) {
    const std::optional<plan::Plan> plan =
        plan::fastest_within(found, keep_all.arena_bytes * percent / 100);
    if (plan)
      print("seconds_ratio_at_" + std::to_string(percent), plan->seconds / keep_all.seconds);
  }
  return 0;
}

// The peak and the cost at shares of the way from the bound to keep-all's peak.
void search(const plan::Problem& problem, const plan::RematLimits& limits,
            const std::string& kind) {
  const plan::Liveness keep_all = plan::analyse(problem, plan::given_order(problem));
  const int64_t bound = plan::pinned_set_bound(problem).bytes;
  for (const int percent : {60, 30}) {
    const int64_t budget = bound + (keep_all.load_bytes - bound) * percent / 100;
    const plan::RematResult result = plan::solve_remat(problem, budget, limits);
    const std::string name = kind + "_at_" + std::to_string(percent);
    print("peak_over_budget" + name,
          std::max(1.0, static_cast<double>(result.peak_bytes) / static_cast<double>(budget)));
    if (result.fits) print("cost_ratio" + name, result.seconds / keep_all.seconds);
  }
}

int remat(const plan::Problem& problem) {
  plan::RematLimits limits;
  limits.effort = plan::Effort::best;
  limits.factor = 0.2;
  search(problem, limits, "");
  return 0;
}

int both_orders(const plan::Problem& problem, plan::Effort effort) {
  plan::RematLimits limits;
  limits.effort = effort;
  search(problem, limits, "_given");
  limits.may_reorder = true;
  search(problem, limits, "_free");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() >= 5 && words[0] == "freeze") return freeze({words.begin() + 1, words.end()});
    if (words.size() == 2 && words[0] == "frontier") return frontier(words[1]);
    if (words.size() == 2 && words[0] == "example") return freeze_example(words[1]);
    if (words.size() == 2 && words[0] == "remat") return remat(solve::load_remat_problem(words[1]));
    const bool is_best = words.size() == 3 && words[2] == "best";
    const plan::Effort effort = is_best ? plan::Effort::best : plan::Effort::standard;
    if ((words.size() == 2 || is_best) && words[0] == "joint")
      return both_orders(solve::load_remat_problem(words[1]), effort);
    if ((words.size() == 2 || is_best) && words[0] == "program")
      return both_orders(plan::problem_from_json(text_of(words[1])), effort);
    std::fprintf(stderr, "usage: corpus_tool freeze|example|frontier|remat|joint|program ...\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
