// SPDX-License-Identifier: Apache-2.0
// How the schedules of a frontier are found.
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/frontier/frontier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "plan/chain/chain.h"
#include "plan/chain/schedule.h"
#include "plan/chain/strategies.h"
#include "plan/frontier/poor_chain.h"
#include "plan/frontier/remat.h"
#include "plan/frontier/workshop.h"
#include "plan/improve/bound.h"
#include "plan/improve/lower_peak.h"
#include "plan/improve/slack.h"
#include "plan/placement/assemble.h"
#include "plan/problem/liveness.h"
#include "plan/problem/order.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::plan {

namespace {

constexpr double kTwin = 2e-3;    // of the load
constexpr double kWideGap = 0.2;  // logarithm of the ratio of two loads
constexpr double kGridBend = 1.6;
constexpr double kFlatSeconds = 0.02;  // logarithm: a step without a gain in time still has a width
constexpr double kLongestSchedule = 80e3;  // forward runs times ops of the problem
constexpr double kFewestForwardRuns = 4;
constexpr double kShareStep = 0.125;
constexpr double kSmallestShare = 1.0 / 64;
constexpr int32_t kFewestPoints = 24;
constexpr double kStepsOfGrid = 320e3;  // points of the grid times ops of the problem
constexpr int32_t kMaxWholeForwards = 3;
constexpr double kMaxForwardRuns = 32;  // longer schedules are of no use to anybody
// Ops. In a longer problem every schedule costs a tenth of a second or more, so that there are few.
constexpr size_t kLongProblem = 40'000;
constexpr int32_t kPointsOfLong = 8;
// Where the chain says little: of the work of `snug solve remat --curve`. The tables that the
// search begins with are its own, so that more ops would need more memory than planning may take.
constexpr double kGraphWork = 0.25;
constexpr size_t kMostGraphOps = 1000;
constexpr size_t kHugeProblem = 150'000;
constexpr int32_t kPointsOfHuge = 3;

bool is_long(const Problem& problem) { return problem.ops.size() > kLongProblem; }
bool is_huge(const Problem& problem) { return problem.ops.size() > kHugeProblem; }

// Shares of a search: its blocks, the tables, other ways to cut, the slack.
constexpr double kBlocksEnd = 0.2;
constexpr double kTablesEnd = 0.6;
constexpr double kOthersEnd = 0.75;

using PartSink = std::function<void(double share)>;

// The part from `begin` to `end` of what is told.
PartSink part_of(const ShareSink& on_share, const char* phase, double begin, double end) {
  if (!on_share) return [](double) {};
  on_share(begin, phase);
  return [&on_share, phase, begin, end](double share) {
    on_share(begin + (end - begin) * share, phase);
  };
}

const ScheduledPoint& smallest_of(const std::vector<ScheduledPoint>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), is_smaller);
}

// The smallest schedule again, as it was before its slack was filled: one that fills every hole is
// hard to place.
std::vector<ScheduledPoint> with_room(std::vector<ScheduledPoint> front, ScheduledPoint roomy) {
  if (roomy.load_bytes <= front.front().load_bytes && roomy.seconds > front.front().seconds)
    front.insert(front.begin(), std::move(roomy));
  return front;
}

// Without points that save next to nothing beside a faster one: each may have to be placed.
std::vector<ScheduledPoint> without_twins(std::vector<ScheduledPoint> front) {
  std::vector<ScheduledPoint> kept;
  for (size_t i = front.size(); i-- > 0;) {
    const double largest = kept.empty() ? std::numeric_limits<double>::max()
                                        : (1 - kTwin) * static_cast<double>(kept.back().load_bytes);
    if (static_cast<double>(front[i].load_bytes) <= largest) kept.push_back(std::move(front[i]));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

// Each without the repeated runs that its own load permits to take out.
std::vector<ScheduledPoint> without_slack(const Workshop& shop,
                                          std::vector<ScheduledPoint> candidates) {
  for (ScheduledPoint& each : candidates) {
    const StepLoads loads = loads_of(shop.table, each.schedule);
    std::vector<OpId> filled = fill_slack(shop.index, each.schedule, loads, loads.load_bytes);
    if (filled.size() < each.schedule.size())
      each = measured(shop.table, std::move(filled), each.strategy);
  }
  return candidates;
}

// Between two neighbours of the front: the smaller with as many repeated runs taken out as the
// bytes below the larger permit; and at steps in between where they are far apart (a slot of the
// table is more than a block of a long chain keeps, so that it knows nothing near keep-all).
void add_filled_candidates(const Workshop& shop, std::vector<ScheduledPoint>& candidates,
                           const PartSink& on_share) {
  const std::vector<ScheduledPoint> front =
      front_of(without_slack(shop, front_of(std::move(candidates))));
  candidates = front;
  for (size_t i = 0; i + 1 < front.size() && !is_huge(shop.index.problem); ++i) {
    on_share(static_cast<double>(i + front.size()) / static_cast<double>(2 * front.size()));
    const auto low = static_cast<double>(front[i].load_bytes);
    const auto high = static_cast<double>(front[i + 1].load_bytes - 1);
    if (low < 1) continue;
    const auto steps = is_long(shop.index.problem)
                           ? 1
                           : std::max<int64_t>(1, std::llround(std::log(high / low) / kWideGap));
    const StepLoads loads = loads_of(shop.table, front[i].schedule);
    for (int64_t step = 1; step <= steps; ++step) {
      const double part = static_cast<double>(step) / static_cast<double>(steps);
      const auto limit = static_cast<int64_t>(low * std::pow(high / low, part));
      std::vector<OpId> filled = fill_slack(shop.index, front[i].schedule, loads, limit);
      if (filled.size() < front[i].schedule.size())
        candidates.push_back(measured(shop.table, std::move(filled), front[i].strategy));
    }
  }
}

// Chooses so many of the budgets, which rise, the first and the last among them: the widest step of
// the curve of their seconds is halved again and again, where a step is as wide as its share of the
// bytes and of the seconds. Denser where budgets are small and a byte buys most.
std::vector<int32_t> spread_along(const std::vector<int32_t>& budgets, const ChainSolver& solver,
                                  size_t count) {
  const auto at = [&](size_t i) {
    return std::pow(static_cast<double>(budgets[i]) / budgets.back(), 1 / kGridBend);
  };
  struct Step {
    double width;
    size_t low, high;
    bool operator<(const Step& other) const {
      return width != other.width ? width < other.width : low > other.low;
    }
  };
  std::priority_queue<Step> steps;
  const auto add = [&](size_t low, size_t high) {
    if (high - low < 2) return;
    const double seconds = std::log(solver.seconds(budgets[low]) / solver.seconds(budgets[high]));
    steps.push({(at(high) - at(low)) * (seconds + kFlatSeconds), low, high});
  };
  std::vector<int32_t> chosen = {budgets.front(), budgets.back()};
  add(0, budgets.size() - 1);
  while (!steps.empty() && chosen.size() < count) {
    const auto [width, low, high] = steps.top();
    steps.pop();
    size_t middle = low + 1;
    while (middle + 1 < high && at(middle) < (at(low) + at(high)) / 2) ++middle;
    chosen.push_back(budgets[middle]);
    add(low, middle);
    add(middle, high);
  }
  return chosen;
}

// Nominal budgets along the curve up to `largest_share` of the largest; and the smallest budgets
// that need at most one, two, three extra forward runs of the whole chain, which people ask for.
std::vector<int32_t> nominal_budgets(const ChainSolver& solver, int32_t grid_points,
                                     double largest_share, double max_forward_runs,
                                     std::ptrdiff_t neighbours) {
  IndexVector<int32_t> all = solver.distinct_budgets();
  if (all.empty()) return {};
  const double forward = solver.seconds(all.back());
  std::erase_if(all, [&](int32_t slots) {
    return slots != all.back() && solver.seconds(slots) > forward * max_forward_runs;
  });
  std::vector<int32_t> covered = all;
  std::erase_if(covered, [&](int32_t slots) {
    return slots != all.front() && slots > largest_share * all.back();
  });
  std::vector<int32_t> chosen = spread_along(covered, solver, static_cast<size_t>(grid_points));
  for (int32_t extra = 1; extra <= kMaxWholeForwards; ++extra) {
    const auto enough = std::find_if(all.begin(), all.end(), [&](int32_t slots) {
      return solver.seconds(slots) <= forward * (1 + extra) * (1 + 1e-6);
    });
    // The neighbours too: exact liveness may say something else than the table.
    const auto at = enough - all.begin();
    for (auto i = std::max<std::ptrdiff_t>(0, at - neighbours);
         i <= at + neighbours && i < static_cast<std::ptrdiff_t>(all.size()); ++i) {
      chosen.push_back(all[i]);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// Every point costs time in proportion to the schedule: long problems get fewer.
int32_t points_for(const Problem& problem, int32_t most) {
  if (is_huge(problem)) return std::min(kPointsOfHuge, most);
  if (is_long(problem)) return std::min(kPointsOfLong, most);
  const double worth = kStepsOfGrid / (static_cast<double>(problem.ops.size()) + 1);
  return std::clamp(static_cast<int32_t>(worth), std::min(kFewestPoints, most), most);
}

// The nominal budgets up to `largest_share` of those that matter.
void add_chain_candidates(const Workshop& shop, int32_t grid_points, double largest_share,
                          std::vector<ScheduledPoint>& candidates, const PartSink& on_share) {
  const auto& blocks = shop.chain.blocks;
  const auto add = [&](const std::vector<ChainAction>& actions) {
    if (auto schedule = flatten(shop.index, shop.chain, actions)) {
      candidates.push_back(measured(shop.table, std::move(*schedule), "budget"));
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
  const Problem& problem = shop.index.problem;
  for (double share = 1; share >= kSmallestShare; share *= kShareStep) {
    const ChainSolver solver(blocks, shop.options, share);
    const std::vector<int32_t> budgets = nominal_budgets(
        solver, grid_points, largest_share, max_forward_runs, is_huge(problem) ? 0 : 1);
    for (size_t i = 0; i < budgets.size(); ++i) {
      add(solver.actions(budgets[i]));
      // There may be further tables, each for the smallest budgets of the one before.
      on_share(1 - share +
               share * (1 - kShareStep) * static_cast<double>(i + 1) /
                   static_cast<double>(budgets.size()));
    }
    if (!solver.is_coarse()) break;
    grid_points = std::max(points_for(problem, kFewestPoints), grid_points / 2);
  }
}

// Peak-driven search from the smallest schedule found, and from keep-all where the chain has little
// to say.
void add_peak_candidates(const Workshop& shop, const FrontierOptions& options,
                         std::vector<ScheduledPoint>& candidates) {
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
        candidates.push_back(measured(shop.table, std::move(found[i]), "budget"));
    }
  };
  const std::vector<OpId> keep_all = given_order(shop.index.problem);
  const std::vector<OpId> start = smallest_of(candidates).schedule;
  search(start, 8);
  if (shop.chain.blocks.size() < 6) {
    if (keep_all != start) search(keep_all, 24);
  }
}

// What the chain's tables do not see.
void add_graph_candidates(const Workshop& shop, std::vector<ScheduledPoint>& candidates) {
  RematLimits limits;
  limits.may_enumerate = false;  // every point would be a search of its own
  limits.factor = kGraphWork;
  for (RematResult& each : RematSolver(shop.index.problem, limits).curve())
    candidates.push_back(measured(shop.table, std::move(each.schedule), "budget"));
}

// With cuts behind the cheap blocks rather than in front of them.
void add_low_candidates(const Problem& problem, const Workshop& shop, int32_t points,
                        std::vector<ScheduledPoint>& candidates) {
  const Workshop low(problem, {.merges_backward = true});
  const bool is_same =
      low.chain.blocks.size() == shop.chain.blocks.size() &&
      std::equal(low.chain.blocks.begin(), low.chain.blocks.end(), shop.chain.blocks.begin(),
                 [](const Block& a, const Block& b) { return a.first == b.first; });
  if (!is_same) add_chain_candidates(low, points / 4, 0.15, candidates, [](double) {});
}

// Steps of the one that are one kernel are one of the other's, too.
bool has_same_kernels(const Op& a, const Op& b) {
  return a.fusion.kind == b.fusion.kind && a.fusion.most == b.fusion.most &&
         a.rowwise->form == b.rowwise->form && a.rowwise->has_head == b.rowwise->has_head;
}

// The ops of a problem that another does not have: of the prologue, while all others correspond in
// order, phase, kernels and whether they may run again.
class AddedOps {
 public:
  static std::optional<AddedOps> find(const Problem& problem, const Problem& model) {
    AddedOps found(problem);
    OpId next{0};  // of the model
    for (const OpId id : problem.ops.ids()) {
      const Op& op = problem.ops[id];
      const bool has_partner = model.ops.has(next) && op.phase == model.ops[next].phase &&
                               op.may_recompute == model.ops[next].may_recompute &&
                               has_same_kernels(op, model.ops[next]) &&
                               (op.phase != Phase::prologue || op.name == model.ops[next].name);
      if (has_partner) {
        found.of_model_.push_back(id);
        ++next;
      } else if (op.phase == Phase::prologue && !op.may_recompute) {
        for (const StorageId output : op.outputs) found.maker_[output] = id;
      } else {
        return std::nullopt;
      }
    }
    if (model.ops.has(next)) return std::nullopt;
    return found;
  }

  // The model's steps, fused as they are there; each added op in front of the first kernel that
  // reads it.
  [[nodiscard]] FusedSchedule steps(const ScheduledPoint& of_model) const {
    FusedSchedule all;
    all.schedule.reserve(problem_->ops.size() - of_model_.size() + of_model.schedule.size());
    IdVector<OpId, bool> has_run(problem_->ops.size(), false);
    const auto is_in_kernel = [&](size_t step) {
      return is_fused(of_model.fused, static_cast<int32_t>(step));
    };
    for (size_t first = 0, next = 0; first < of_model.schedule.size(); first = next) {
      const auto each_op = [&](const auto& take) {
        for (size_t step = first; step < next; ++step) take(of_model_[of_model.schedule[step]]);
      };
      for (++next; is_in_kernel(next);) ++next;
      each_op([&](OpId id) {
        for (const StorageId input : problem_->ops[id].inputs) {
          const OpId maker = maker_[input];
          if (maker == kNone || has_run[maker]) continue;
          has_run[maker] = true;
          all.schedule.push_back(maker);
        }
      });
      if (!of_model.fused.empty()) {
        all.fused.resize(all.schedule.size(), Fused::no);
        all.fused.insert(all.fused.end(),
                         of_model.fused.begin() + static_cast<std::ptrdiff_t>(first),
                         of_model.fused.begin() + static_cast<std::ptrdiff_t>(next));
      }
      each_op([&](OpId id) { all.schedule.push_back(id); });
    }
    return all;
  }

 private:
  explicit AddedOps(const Problem& problem) : problem_(&problem), maker_(problem.storages.size()) {}
  const Problem* problem_;
  IdVector<OpId, OpId> of_model_;    // by op of the model
  IdVector<StorageId, OpId> maker_;  // of what added ops make
};

// The problem of the level of fusion at which no op is computed by rows with others; nothing where
// it is that already. What is searched in it is the same at every level.
std::optional<Problem> without_rows(const Problem& problem) {
  if (!has_ops_by_rows(problem)) return std::nullopt;
  Problem plain = problem;
  for (Op& op : plain.ops) {
    if (op.rowwise->apart_seconds != 0) op.seconds = op.rowwise->apart_seconds;
    op.rowwise = {};
  }
  return plain;
}

// The front of what is found in the problem with its updates moved; schedules in the ids of the
// given one.
std::vector<ScheduledPoint> search_schedules(const Problem& problem, const OrderedProblem& ordered,
                                             const FrontierOptions& options,
                                             const ShareSink& on_share) {
  const Workshop shop(ordered.problem);
  std::vector<ScheduledPoint> candidates;
  candidates.push_back(measured(shop.table, given_order(ordered.problem), "keep-all"));
  if (shop.has_chain()) {
    const int32_t points = points_for(ordered.problem, options.grid_points);
    add_chain_candidates(shop, points, 1.0, candidates,
                         part_of(on_share, "chain", kBlocksEnd, kTablesEnd));
    // The other way to cut, for the smallest budgets.
    if (!is_long(problem)) add_low_candidates(ordered.problem, shop, points, candidates);
  }
  if (!is_long(problem)) add_peak_candidates(shop, options, candidates);
  if (options.searches_graphs && problem.ops.size() <= kMostGraphOps && is_poor_chain(shop))
    add_graph_candidates(shop, candidates);
  // Timed as the given problem sums its seconds, so that equal runs have equal times to the bit.
  const LivenessTable given(problem);
  const auto in_given_ids = [&](ScheduledPoint point) {
    // Another order of keep-all is keep-all too.
    if (point.schedule.size() <= problem.ops.size()) point.strategy = "keep-all";
    point.schedule = in_original_ids(ordered, point.schedule);
    return timed(given, std::move(point));
  };
  ScheduledPoint roomy = in_given_ids(smallest_of(candidates));
  add_filled_candidates(shop, candidates, part_of(on_share, "refining", kOthersEnd, 1));
  std::vector<ScheduledPoint> front;
  for (ScheduledPoint& point : front_of(std::move(candidates)))
    front.push_back(in_given_ids(std::move(point)));
  return with_room(without_twins(front_of(std::move(front))), std::move(roomy));
}

}  // namespace

bool has_same_structure(const Problem& a, const Problem& b) {
  return a.storages.size() == b.storages.size() && a.keep == b.keep &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [](const Op& x, const Op& y) {
                      return x.name == y.name && x.phase == y.phase && x.inputs == y.inputs &&
                             x.outputs == y.outputs && x.reuses == y.reuses &&
                             x.may_recompute == y.may_recompute;
                    });
}

Frontier build_frontier(const Problem& problem, const FrontierOptions& options,
                        const ShareSink& on_share) {
  (void)part_of(on_share, "blocks", 0, kBlocksEnd);
  validate(problem);
  const std::optional<Problem> plain = without_rows(problem);
  const Problem& searched = plain ? *plain : problem;
  const OrderedProblem ordered = with_prompt_updates(searched);
  std::vector<ScheduledPoint> front = search_schedules(searched, ordered, options, on_share);
  const LivenessTable table(problem);
  if (plain) {
    for (ScheduledPoint& each : front) each = timed(table, std::move(each));
  }
  return {problem, with_and_without_rows(table, std::move(front)), ordered.original,
          options.placement};
}

Frontier build_frontier_like(const Problem& problem, const Problem& model_problem,
                             const Frontier& model, const FrontierOptions& options,
                             const ShareSink& on_share) {
  if (!has_same_structure(problem, model_problem))
    return build_frontier(problem, options, on_share);
  validate(problem);
  const std::vector<OpId> keep_all = prompt_update_order(problem);
  const LivenessTable table(problem);
  std::vector<ScheduledPoint> candidates;
  candidates.push_back(measured(table, keep_all, "keep-all"));
  for (const ScheduledPoint& point : model.points()) {
    // The same schedule is there without them.
    if (!has_row_programs(point))
      candidates.push_back(measured(table, point.schedule, point.strategy));
  }
  ScheduledPoint roomy = candidates[1];
  std::vector<ScheduledPoint> front = with_room(front_of(std::move(candidates)), std::move(roomy));
  return {problem, with_and_without_rows(table, std::move(front)), keep_all, options.placement};
}

Frontier build_frontier_beside(const Problem& problem, const Problem& model_problem,
                               const Frontier& model, const FrontierOptions& options,
                               const ShareSink& on_share) {
  const std::optional<AddedOps> added = AddedOps::find(problem, model_problem);
  if (!added) return build_frontier(problem, options, on_share);
  validate(problem);
  const LivenessTable table(problem);
  std::vector<ScheduledPoint> points;
  for (const ScheduledPoint& point : model.points()) {
    FusedSchedule steps = added->steps(point);
    points.push_back(
        measured(table, std::move(steps.schedule), point.strategy, std::move(steps.fused)));
  }
  sort_slowest_first(points);
  return {problem, std::move(points), prompt_update_order(problem), options.placement};
}

static Plan plan_of(const Problem& problem, std::vector<OpId> schedule, std::string_view strategy,
                    const FrontierOptions& options) {
  return placed_fused(problem, measured(problem, std::move(schedule), std::string(strategy)),
                      options.placement);
}

Plan plan_strategy(const Problem& problem, std::string_view strategy,
                   const FrontierOptions& options) {
  validate(problem);
  const OrderedProblem ordered = with_prompt_updates(problem);
  check_strategy_name(strategy);
  const ProblemIndex index(ordered.problem);
  if (const auto marks = strategy_marks(index, strategy)) {
    return plan_of(problem, in_original_ids(ordered, marked_schedule(index, *marks)), strategy,
                   options);
  }
  if (strategy != "keep-all") {
    const Workshop shop(ordered.problem);
    std::vector<OpId> best;
    int64_t least = std::numeric_limits<int64_t>::max();
    if (shop.has_chain()) {
      for (const auto& actions : strategy_actions(shop.index, shop.chain, shop.options, strategy)) {
        auto schedule = flatten(shop.index, shop.chain, actions);
        if (!schedule) continue;
        const int64_t load = loads_of(ordered.problem, *schedule).load_bytes;
        if (load < least) best = std::move(*schedule);
        least = std::min(least, load);
      }
    }
    if (!best.empty()) return plan_of(problem, in_original_ids(ordered, best), strategy, options);
  }
  return plan_of(problem, ordered.original, strategy, options);
}

}  // namespace snug::plan
