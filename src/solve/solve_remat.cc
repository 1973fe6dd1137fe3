// SPDX-License-Identifier: Apache-2.0
// The verbs behind `snug solve remat` and `snug solve check`: files to problems, problems to
// reports.
#include "snug/solve_remat.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"
#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "base/tasks.h"
#include "base/units.h"
#include "plan/frontier/remat.h"
#include "plan/graphs/stage_graph.h"
#include "plan/improve/bound.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"
#include "plan/problem/plain_problem.h"
#include "snug/error.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug {
namespace {

using Clock = StopClock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

plan::Effort effort_of(RematEffort effort) {
  switch (effort) {
    case RematEffort::fast:
      return plan::Effort::fast;
    case RematEffort::standard:
      return plan::Effort::standard;
    case RematEffort::best:
      return plan::Effort::best;
  }
  SNUG_CHECK(false, "an effort without a name");
}

const char* word_of(plan::BoundProof proof) {
  switch (proof) {
    case plan::BoundProof::op:
      return "op";
    case plan::BoundProof::pinned:
      return "pinned";
    case plan::BoundProof::kept:
      return "kept";
  }
  SNUG_CHECK(false, "a proof without a name");
}

// Shares of a time limit, at most.
constexpr double kShareOfBounds = 0.2;
constexpr double kShareOfSearch = 0.9;  // of what is left then

constexpr const char* kBudgetHint =
    "give bytes (4096, 1.5GiB) or, with a decimal point, a fraction of the peak of keeping all "
    "(0.6)";

constexpr double kLargestFraction = 10;  // beyond it, bytes were meant

int64_t resolve_budget(const std::string& text, int64_t keep_all_bytes) {
  const bool is_plain = text.find_first_not_of("0123456789.+-eE") == std::string::npos;
  if (!is_plain || text.find('.') == std::string::npos) {
    const int64_t bytes = parse_bytes(text, "budget");
    if (bytes <= 0) throw Error(ErrorCode::bad_config, "budget", "must be above 0", kBudgetHint);
    return bytes;
  }
  const double fraction = number_in<double>(text).value_or(0);
  if (!(fraction > 0))
    throw Error(ErrorCode::bad_config, "budget", "\"" + text + "\" is no fraction above 0",
                kBudgetHint);
  if (fraction > kLargestFraction)
    throw Error(ErrorCode::bad_config, "budget",
                "\"" + text + "\" has a decimal point, and would be " + text +
                    " times the peak of keeping all",
                kBudgetHint);
  return static_cast<int64_t>(std::floor(fraction * static_cast<double>(keep_all_bytes) + 1e-6));
}

[[noreturn]] void refuse_time_limit(const std::string& found) {
  throw Error(ErrorCode::bad_config, "--time-limit", found + " is no number of seconds above 0",
              "give seconds (0.5), or omit it for a search without a time limit");
}

void check_time_limit(double seconds) {
  if (!(seconds >= 0 && std::isfinite(seconds))) refuse_time_limit(number_text(seconds));
}

// One problem with what does not depend on the budget.
class Solver {
 public:
  explicit Solver(const RematRequest& request)
      : request_(request),
        joint_(load(request)),
        plain_(plan::plain_problem(joint_)),
        keep_all_(plan::analyse(plain_.problem, plan::given_order(plain_.problem))),
        bound_(plan::working_set_bound(plain_.problem)),
        solver_(plain_.problem, limits_of(request, plain_)) {
    within(kShareOfBounds, [&] {
      bound_ = plan::pinned_set_bound(plain_.problem, !request.may_reorder);
      if (request.may_reorder) return;
      const plan::ProblemIndex index(plain_.problem);
      const plan::StageGraph graph(index, plan::given_order(plain_.problem));
      const plan::WorkingSetBound of_order = plan::pinned_order_bound(graph);
      if (of_order.bytes > bound_.bytes) bound_ = of_order;
    });
  }

  [[nodiscard]] int64_t keep_all_bytes() const { return with_base(keep_all_.load_bytes); }

  [[nodiscard]] RematReport report(int64_t budget_bytes) {
    const auto begin = Clock::now();
    const int64_t plain_budget = std::max<int64_t>(0, budget_bytes - plain_.common_bytes);
    const plan::RematResult result = [&] {
      const StopScope stop(until(kShareOfSearch));
      return solver_.at(plain_budget);
    }();
    // Where nothing fits the bound is that of the schedule's own peak.
    const int64_t bytes = result.fits ? plain_budget : result.peak_bytes;
    std::vector<double> bounds;
    within(1, [&] { bounds = plan::lower_bounds_seconds(plain_.problem, std::span(&bytes, 1)); });
    RematReport report = report_of(result, budget_bytes, bounds.empty() ? 0 : bounds.front());
    report.seconds = seconds_since(begin);
    return report;
  }

  [[nodiscard]] std::vector<RematReport> curve() {
    const std::vector<plan::RematResult> points = [&] {
      const StopScope stop(until(kShareOfSearch));
      return solver_.curve();
    }();
    std::vector<int64_t> budgets;
    for (const plan::RematResult& each : points) budgets.push_back(each.peak_bytes);
    std::vector<double> bounds(points.size(), 0);
    within(1, [&] { bounds = plan::lower_bounds_seconds(plain_.problem, budgets); });
    std::vector<RematReport> reports;
    for (size_t i = 0; i < points.size(); ++i)
      reports.push_back(report_of(points[i], with_base(budgets[i]), bounds[i]));
    return reports;
  }

 private:
  [[nodiscard]] int64_t with_base(int64_t plain_bytes) const {
    return plain_bytes + plain_.common_bytes;
  }

  void add_schedule(const std::vector<plan::OpId>& schedule, RematReport& report) const {
    const StopPause pause;  // it was found in time
    const plan::JointSchedule joint = plan::joint_schedule(joint_, plain_, schedule);
    for (const plan::OpId id : joint.ops) report.schedule.push_back(joint_.run(id).name);
    if (!joint.parts) return;
    RematParts& parts = report.parts.emplace();
    parts.boundary_step = joint.parts->boundary_step;
    parts.forward_peak_bytes = joint.parts->forward_peak_bytes;
    parts.backward_peak_bytes = joint.parts->backward_peak_bytes;
    parts.crossing_bytes = joint.parts->crossing_bytes;
    for (const plan::StorageId id : joint.parts->crossing)
      parts.crossing.push_back(joint_.storages[id].name);
  }

  static plan::Problem load(const RematRequest& request) {
    check_time_limit(request.time_limit_seconds);
    StopConditions conditions{request.cancel, std::nullopt};
    if (request.time_limit_seconds > 0) conditions.deadline = deadline_of(Clock::now(), request);
    try {
      const StopScope stop(conditions);
      return solve::load_remat_problem(request.file);
    } catch (const Error& error) {
      const bool is_late = error.code() == ErrorCode::cancelled &&
                           (request.cancel == nullptr || !request.cancel->load());
      if (!is_late) throw;
      throw Error(ErrorCode::out_of_budget, request.file,
                  "no schedule was found within the time limit: it was not even read",
                  "give --time-limit more seconds");
    }
  }

  static Clock::time_point deadline_of(Clock::time_point begin, const RematRequest& request) {
    // A century is no limit, and more would not be a time.
    const double seconds = std::min(request.time_limit_seconds, 3e9);
    return begin +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // The conditions for a part of the work that may take a share of the time that is left.
  [[nodiscard]] StopConditions until(double share) const {
    StopConditions conditions{request_.cancel, std::nullopt};
    if (request_.time_limit_seconds > 0) {
      const auto now = Clock::now();
      const auto left = std::chrono::duration<double>(deadline_of(begin_, request_) - now);
      conditions.deadline =
          now + std::chrono::duration_cast<Clock::duration>(left * std::min(1.0, share));
    }
    return conditions;
  }

  // What ends early is left out.
  template <class Work>
  void within(double share, const Work& work) const {
    try {
      const StopScope stop(until(share));
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
    }
  }

  /// `bound_cost`: no schedule within the budget costs less; 0 where that is unknown.
  [[nodiscard]] RematReport report_of(const plan::RematResult& result, int64_t budget_bytes,
                                      double bound_cost) const {
    RematReport report;
    report.peak_bytes = with_base(result.peak_bytes);
    report.fits = report.peak_bytes <= budget_bytes;
    report.is_stopped = result.is_stopped;
    report.is_optimal = result.is_optimal;
    report.budget_bytes = budget_bytes;
    report.keep_all_peak_bytes = keep_all_bytes();
    report.cost = result.seconds;
    report.base_cost = keep_all_.seconds;
    report.overhead = ratio(result.seconds, keep_all_.seconds);
    report.lower_bound_peak_bytes = with_base(bound_.bytes);
    const plan::OpId bound_op = bound_.op == kNone ? kNone : plain_.original[bound_.op];
    if (bound_op != kNone) report.lower_bound_op = joint_.ops[bound_op].name;
    if (budget_bytes < report.lower_bound_peak_bytes) report.proof = word_of(bound_.proof);
    // At least every op once.
    report.lower_bound_cost = std::max(keep_all_.seconds, std::min(result.seconds, bound_cost));
    if (result.is_optimal && report.fits) report.lower_bound_cost = result.seconds;
    report.gap = report.fits ? ratio(report.cost, report.lower_bound_cost)
                             : ratio(static_cast<double>(report.peak_bytes),
                                     static_cast<double>(report.lower_bound_peak_bytes));
    add_schedule(result.schedule, report);
    return report;
  }

  static plan::RematLimits limits_of(const RematRequest& request, const plan::PlainProblem& plain) {
    plan::RematLimits limits;
    limits.boundary_ops = plain.boundary_ops;
    limits.may_reorder = request.may_reorder;
    limits.effort = effort_of(request.effort);
    limits.may_be_stopped = request.time_limit_seconds > 0;
    limits.threads = usable_threads();
    return limits;
  }

  static double ratio(double value, double base) { return base > 0 ? value / base - 1 : 0; }

  const RematRequest& request_;
  Clock::time_point begin_ = Clock::now();
  plan::Problem joint_;       // as the file has it
  plan::PlainProblem plain_;  // what is solved
  plan::Liveness keep_all_;
  plan::WorkingSetBound bound_;
  plan::RematSolver solver_;
};

}  // namespace

RematEffort parse_effort(std::string_view text) {
  if (text == "fast") return RematEffort::fast;
  if (text == "default") return RematEffort::standard;
  if (text == "best") return RematEffort::best;
  throw Error(ErrorCode::bad_config, "--effort", "\"" + std::string(text) + "\" is no effort",
              "fast, default and best are");
}

double parse_time_limit(std::string_view text) {
  const std::optional<double> seconds = number_in<double>(text);
  if (!seconds || !(*seconds > 0) || !std::isfinite(*seconds))
    refuse_time_limit("'" + std::string(text) + "'");
  return *seconds;
}

RematReport solve_remat(const RematRequest& request) {
  const DefaultFloatMode float_mode;
  Solver solver(request);
  return solver.report(resolve_budget(request.budget, solver.keep_all_bytes()));
}

RematCurve remat_curve(const RematRequest& request) {
  const DefaultFloatMode float_mode;
  const auto begin = Clock::now();
  RematCurve curve;
  curve.points = Solver(request).curve();
  curve.seconds = seconds_since(begin);
  return curve;
}

RematCheck check_remat(const std::string& problem_file, const std::string& schedule_file) {
  const DefaultFloatMode float_mode;
  const plan::Problem problem = solve::load_remat_problem(problem_file);
  return solve::replay(problem, solve::load_remat_schedule(schedule_file));
}

}  // namespace snug
