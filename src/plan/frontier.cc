// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/assemble.h"
#include "plan/bound.h"
#include "plan/chain.h"
#include "plan/improve.h"
#include "plan/liveness.h"
#include "plan/order.h"
#include "plan/schedule.h"
#include "plan/strategies.h"
#include "plan/validate.h"
#include "snug/error.h"

namespace snug::plan {

namespace {

constexpr double kGridBend = 1.6;
constexpr double kLongestSchedule = 160e3;  // forward runs times ops of the problem
constexpr double kFewestForwardRuns = 4;
constexpr double kShareStep = 0.125;
constexpr double kSmallestShare = 1.0 / 64;
constexpr int32_t kFewestPoints = 8;
constexpr double kStepsOfGrid = 160e3;  // points of the grid times ops of the problem
constexpr int32_t kMaxWholeForwards = 3;
constexpr double kMaxForwardRuns = 32;  // longer schedules are of no use to anybody
constexpr double kMaxTableWork = 4e9;   // transitions × slots: a few seconds

// A schedule that may become a plan.
struct Candidate {
  std::vector<OpId> schedule;  // empty: keep-all, which is placed already
  std::string strategy;
  int64_t load_bytes = 0;
  double seconds = 0;
};

// Everything the strategies share for one problem.
struct Workshop {
  explicit Workshop(const Problem& problem, BlockLimits limits = {})
      : index(problem), chain(find_blocks(index, limits)) {
    if (index.backward_begin > 0 && index.backward_begin < index.op_count()) {
      options = block_options(index, chain);
      // A long chain of different blocks: neighbours are merged until the table is short enough.
      while (ChainSolver::least_work(options) > kMaxTableWork) {
        limits.max_blocks = static_cast<int32_t>(chain.blocks.size() + 1) / 2;
        chain = find_blocks(index, limits);
        options = block_options(index, chain);
      }
    }
  }
  [[nodiscard]] bool has_chain() const { return !options.empty(); }

  ProblemIndex index;
  Chain chain;
  std::vector<BlockOptions> options;
};

void add_candidate(const Workshop& shop, std::vector<OpId> schedule, const std::string& strategy,
                   std::vector<Candidate>& candidates) {
  const int64_t load = analyse(shop.index.problem, schedule).load_bytes;
  Candidate candidate{fill_slack(shop.index, schedule, load), strategy, 0, 0};
  const Liveness live = analyse(shop.index.problem, candidate.schedule);
  candidate.load_bytes = live.load_bytes;
  candidate.seconds = live.seconds;
  candidates.push_back(std::move(candidate));
}

// The schedules that no other beats in both load and seconds, smallest load first.
std::vector<Candidate> front_of(std::vector<Candidate> candidates) {
  std::stable_sort(
      candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.load_bytes != b.load_bytes ? a.load_bytes < b.load_bytes : a.seconds < b.seconds;
      });
  std::vector<Candidate> front;
  for (Candidate& each : candidates) {
    if (front.empty() || each.seconds < front.back().seconds) front.push_back(std::move(each));
  }
  return front;
}

// A grid of nominal budgets, denser where they are small and a byte buys most; and the smallest
// budgets that need at most one, two, three extra forward runs of the whole chain, which people ask
// for.
std::vector<int32_t> nominal_budgets(const ChainSolver& solver, int32_t grid_points,
                                     double largest_share, double max_forward_runs) {
  std::vector<int32_t> all = solver.distinct_budgets();
  std::vector<int32_t> chosen;
  if (all.empty()) return chosen;
  const double forward = solver.seconds(all.back());
  std::erase_if(all, [&](int32_t slots) {
    return slots != all.back() && solver.seconds(slots) > forward * max_forward_runs;
  });
  const auto points = std::min<size_t>(all.size(), static_cast<size_t>(grid_points));
  for (size_t i = 0; i < points; ++i) {
    const double part =
        points == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(points - 1);
    chosen.push_back(all[static_cast<size_t>(std::llround(
        largest_share * std::pow(part, kGridBend) * static_cast<double>(all.size() - 1)))]);
  }
  for (int32_t extra = 1; extra <= kMaxWholeForwards; ++extra) {
    const auto enough = std::find_if(all.begin(), all.end(), [&](int32_t slots) {
      return solver.seconds(slots) <= forward * (1 + extra) * (1 + 1e-6);
    });
    // The neighbours too: exact liveness may say something else than the table.
    const auto at = enough - all.begin();
    for (auto i = std::max<std::ptrdiff_t>(0, at - 1);
         i <= at + 1 && i < static_cast<std::ptrdiff_t>(all.size()); ++i) {
      chosen.push_back(all[static_cast<size_t>(i)]);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// Every point costs time in proportion to the schedule: long problems get fewer.
int32_t points_for(const Problem& problem, int32_t most) {
  const double worth = kStepsOfGrid / (static_cast<double>(problem.ops.size()) + 1);
  return std::clamp(static_cast<int32_t>(worth), std::min(kFewestPoints, most), most);
}

// The nominal budgets up to `largest_share` of those that matter.
void add_chain_candidates(const Workshop& shop, int32_t grid_points, double largest_share,
                          std::vector<Candidate>& candidates) {
  const auto& blocks = shop.chain.blocks;
  const auto add = [&](const std::vector<ChainAction>& actions) {
    if (auto schedule = flatten(shop.index, shop.chain, actions)) {
      add_candidate(shop, std::move(*schedule), "budget", candidates);
    }
  };
  for (const char* name : {"keep-all", "recompute-all", "sqrt"}) {
    for (const auto& actions : strategy_actions(shop.index, shop.chain, shop.options, name))
      add(actions);
  }
  // Long problems cannot afford the longest schedules.
  const double max_forward_runs =
      std::clamp(kLongestSchedule / (static_cast<double>(shop.index.op_count()) + 1),
                 kFewestForwardRuns, kMaxForwardRuns);
  // The smallest budgets of a long chain are less than a slot of the table for all of them.
  for (double share = 1; share >= kSmallestShare; share *= kShareStep) {
    const ChainSolver solver(blocks, shop.options, share);
    for (const int32_t slots :
         nominal_budgets(solver, grid_points, largest_share, max_forward_runs))
      add(solver.actions(slots));
    if (!solver.is_coarse()) break;
    grid_points = std::max(kFewestPoints, grid_points / 2);
  }
}

// Peak-driven search from the smallest schedule found, and from keep-all where the chain has little
// to say.
void add_peak_candidates(const Workshop& shop, const FrontierOptions& options,
                         std::vector<Candidate>& candidates) {
  const double size = static_cast<double>(shop.index.op_count()) + 1;
  PeakSearch limits;
  // Every trial costs a liveness pass: fewer rounds for longer problems.
  limits.max_rounds =
      static_cast<int32_t>(std::min<double>(options.improvement_rounds, 4e4 / size + 8));
  const auto search = [&](const std::vector<OpId>& start, size_t max_kept) {
    auto found = lower_peak(shop.index, start, limits);
    const size_t stride = std::max<size_t>(1, found.size() / std::max<size_t>(1, max_kept));
    for (size_t i = found.size(); i-- > 0;) {
      if ((found.size() - 1 - i) % stride == 0)
        add_candidate(shop, std::move(found[i]), "budget", candidates);
    }
  };
  const auto smallest =
      std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.load_bytes != b.load_bytes ? a.load_bytes < b.load_bytes : a.seconds < b.seconds;
      });
  const std::vector<OpId> keep_all = given_order(shop.index.problem);
  const std::vector<OpId> start = smallest->schedule.empty() ? keep_all : smallest->schedule;
  search(start, 8);
  if (shop.chain.blocks.size() < 6) {
    if (keep_all != start) search(keep_all, 24);
  }
}

// Places every schedule and keeps the plans that no other beats in both arena and seconds.
void place_front(const OrderedProblem& ordered, const std::vector<Candidate>& front,
                 const Problem& problem, const FrontierOptions& options, const Plan& keep_all,
                 Frontier& frontier) {
  std::vector<Plan> placed;
  for (const Candidate& candidate : front) {
    if (candidate.schedule.empty()) {
      placed.push_back(keep_all);
    } else {
      // Another order of keep-all is keep-all too.
      const bool repeats = candidate.schedule.size() > problem.ops.size();
      placed.push_back(assemble(problem, in_original_ids(ordered, candidate.schedule),
                                repeats ? candidate.strategy : "keep-all", options.placement));
    }
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Plan& a, const Plan& b) {
    return a.arena_bytes != b.arena_bytes ? a.arena_bytes < b.arena_bytes : a.seconds < b.seconds;
  });
  for (Plan& plan : placed) {
    if (frontier.plans.empty() || plan.seconds < frontier.plans.back().seconds) {
      frontier.plans.push_back(std::move(plan));
    }
  }
}

Frontier empty_frontier(const Problem& problem, const Plan& keep_all) {
  Frontier frontier;
  frontier.bound = working_set_bound(problem);
  frontier.keep_all_arena_bytes = keep_all.arena_bytes;
  frontier.keep_all_seconds = keep_all.seconds;
  return frontier;
}

// Same ops on the same storages; bytes and seconds may differ.
bool has_same_structure(const Problem& a, const Problem& b) {
  return a.storages.size() == b.storages.size() && a.keep == b.keep &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [](const Op& x, const Op& y) {
                      return x.name == y.name && x.phase == y.phase && x.inputs == y.inputs &&
                             x.outputs == y.outputs && x.may_recompute == y.may_recompute;
                    });
}

}  // namespace

Frontier build_frontier(const Problem& problem, const FrontierOptions& options) {
  validate(problem);
  const OrderedProblem ordered = with_prompt_updates(problem);
  const Workshop shop(ordered.problem);
  Plan keep_all = assemble(problem, ordered.original, "keep-all", options.placement);
  Frontier frontier = empty_frontier(problem, keep_all);
  std::vector<Candidate> candidates;
  candidates.push_back({{}, "keep-all", keep_all.load_bytes, keep_all.seconds});
  if (shop.has_chain()) {
    const int32_t points = points_for(ordered.problem, options.grid_points);
    add_chain_candidates(shop, points, 1.0, candidates);
    // The other way to cut, for the smallest budgets.
    const Workshop low(ordered.problem, {.merges_backward = true});
    const bool is_same =
        low.chain.blocks.size() == shop.chain.blocks.size() &&
        std::equal(low.chain.blocks.begin(), low.chain.blocks.end(), shop.chain.blocks.begin(),
                   [](const Block& a, const Block& b) { return a.first == b.first; });
    if (!is_same) add_chain_candidates(low, points / 4, 0.15, candidates);
  }
  add_peak_candidates(shop, options, candidates);
  place_front(ordered, front_of(std::move(candidates)), problem, options, keep_all, frontier);
  return frontier;
}

Frontier build_frontier_like(const Problem& problem, const Problem& model_problem,
                             const Frontier& model, const FrontierOptions& options) {
  if (!has_same_structure(problem, model_problem)) return build_frontier(problem, options);
  validate(problem);
  const OrderedProblem given{{}, given_order(problem)};
  Plan keep_all =
      assemble(problem, with_prompt_updates(problem).original, "keep-all", options.placement);
  Frontier frontier = empty_frontier(problem, keep_all);
  std::vector<Candidate> candidates;
  candidates.push_back({{}, "keep-all", keep_all.load_bytes, keep_all.seconds});
  for (const Plan& plan : model.plans) {
    Candidate candidate{{}, plan.strategy, 0, 0};
    for (const Step& step : plan.steps) candidate.schedule.push_back(step.op);
    const Liveness live = analyse(problem, candidate.schedule);
    candidate.load_bytes = live.load_bytes;
    candidate.seconds = live.seconds;
    candidates.push_back(std::move(candidate));
  }
  place_front(given, front_of(std::move(candidates)), problem, options, keep_all, frontier);
  return frontier;
}

Plan plan_strategy(const Problem& problem, std::string_view strategy,
                   const FrontierOptions& options) {
  validate(problem);
  const OrderedProblem ordered = with_prompt_updates(problem);
  check_strategy_name(strategy);
  if (strategy != "keep-all") {
    const Workshop shop(ordered.problem);
    std::vector<OpId> best;
    int64_t least = std::numeric_limits<int64_t>::max();
    if (shop.has_chain()) {
      for (const auto& actions : strategy_actions(shop.index, shop.chain, shop.options, strategy)) {
        auto schedule = flatten(shop.index, shop.chain, actions);
        if (!schedule) continue;
        const int64_t load = analyse(ordered.problem, *schedule).load_bytes;
        if (load < least) best = std::move(*schedule);
        least = std::min(least, load);
      }
    }
    if (!best.empty()) {
      return assemble(problem, in_original_ids(ordered, best), std::string(strategy),
                      options.placement);
    }
  }
  return assemble(problem, ordered.original, std::string(strategy), options.placement);
}

const Plan* fastest_within(const Frontier& frontier, int64_t arena_budget_bytes) {
  const Plan* best = nullptr;
  for (const Plan& plan : frontier.plans) {
    if (plan.arena_bytes > arena_budget_bytes) continue;
    if (best == nullptr || plan.seconds < best->seconds) best = &plan;
  }
  return best;
}

Refusal refuse(const Problem& problem, const Frontier& frontier, int64_t arena_budget_bytes) {
  Refusal refusal;
  refusal.budget_bytes = arena_budget_bytes;
  refusal.bound = frontier.bound;
  refusal.is_proved = arena_budget_bytes < frontier.bound.bytes;
  if (!frontier.plans.empty()) refusal.smallest_arena_bytes = frontier.plans.front().arena_bytes;
  refusal.gap_bytes = refusal.smallest_arena_bytes - frontier.bound.bytes;
  if (frontier.bound.op < 0) return refusal;
  const Op& op = problem.ops[static_cast<size_t>(frontier.bound.op)];
  refusal.op_name = op.name;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const StorageId id : *operands) {
      const Storage& storage = problem.storages[static_cast<size_t>(id)];
      if (!storage.resident) refusal.operands.push_back({storage.name, storage.bytes});
    }
  }
  if (op.scratch_bytes > 0) refusal.operands.push_back({"scratch", op.scratch_bytes});
  std::stable_sort(refusal.operands.begin(), refusal.operands.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return refusal;
}

}  // namespace snug::plan
