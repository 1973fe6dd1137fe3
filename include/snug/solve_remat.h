// SPDX-License-Identifier: Apache-2.0
// The planner alone: rematerialization of a graph from a file, and the independent check of a
// schedule. See docs/solve.md for the files.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

/// How much a search looks at; counted, so that the result is always the same. One core takes, for
/// graphs of up to 500 and 5,000 ops: fast a tenth of a second and half a second; standard, which
/// the program calls "default", one second and three; best a minute and more.
enum class RematEffort : uint8_t { fast, standard, best };

struct RematRequest {
  std::string file;
  /// Bytes ("4096", "1.5GiB"), or with a decimal point and no unit a fraction of the peak of the
  /// listed order without recomputation ("0.6").
  std::string budget;
  bool may_reorder = true;  // first runs may leave the listed order
  RematEffort effort = RematEffort::standard;
  double time_limit_seconds = 0;  // 0: none; the search then stops where it stands, bounds too
  const std::atomic<bool>* cancel = nullptr;
};

/// What a boundary between forward and backward part parts.
struct RematParts {
  int64_t boundary_step = 0;       // how many steps of the schedule lie in the forward part
  int64_t forward_peak_bytes = 0;  // with the part's base
  int64_t backward_peak_bytes = 0;
  int64_t crossing_bytes = 0;
  std::vector<std::string> crossing;  // storages in memory on both sides; views by what holds them
};

struct RematReport {
  bool fits = false;  // where not: the peak, the cost and the schedule are those of the smallest
                      // peak found
  bool is_stopped = false;  // by the time limit or the caller, before the search had ended
  bool is_optimal = false;  // proved by exhaustive search
  int64_t budget_bytes = 0;
  int64_t keep_all_peak_bytes = 0;  // of the listed order without recomputation
  int64_t peak_bytes = 0;
  double cost = 0;
  double base_cost = 0;                // every op once
  double overhead = 0;                 // cost / base_cost - 1
  double lower_bound_cost = 0;         // no schedule within the budget costs less
  int64_t lower_bound_peak_bytes = 0;  // no schedule has a smaller peak
  std::string lower_bound_op;  // the op that proves it; empty: the boundary and the bases do
  /// What that bound counts: "op", the op's operands; "pinned", these and what cannot be made again
  /// and must lie beside them; "kept", what is kept at the end beside the op that makes the last of
  /// it. Empty where the budget is not below the bound.
  std::string proof;
  double gap = 0;  // cost / lower_bound_cost - 1; where nothing fits, of peak and its bound
  double seconds = 0;
  std::vector<std::string> schedule;  // op ids in order, repeats included
  std::optional<RematParts> parts;    // where the problem has a boundary

  /// Where nothing fits: why, in one line.
  [[nodiscard]] std::string refusal() const;
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::string to_text() const;
};

/// The effort that a text names: "fast", "default" or "best". Throws Error{bad_config} for others.
[[nodiscard]] RematEffort parse_effort(std::string_view text);

/// The seconds that a text names; throws Error{bad_config} for all but a number above 0.
[[nodiscard]] double parse_time_limit(std::string_view text);

/// Throws Error for a bad file or budget; an impossible budget is a report that does not fit.
[[nodiscard]] RematReport solve_remat(const RematRequest& request);

/// The whole trade-off in one run: reports from the smallest peak found up to the peak of the
/// listed order, cost falling strictly. At RematEffort::best they are
/// improved as those of solve_remat at `standard` are; else they are brief. The request's budget is
/// not used.
struct RematCurve {
  std::vector<RematReport> points;
  double seconds = 0;
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::string to_text() const;
};
[[nodiscard]] RematCurve remat_curve(const RematRequest& request);

struct RematCheck {
  std::vector<std::string> violations;  // empty: the schedule is valid
  int64_t peak_bytes = 0;
  std::string peak_op;  // empty: the peak is at the boundary
  double cost = 0;
  double base_cost = 0;
  int64_t steps = 0;
  std::vector<int64_t> step_bytes;  // in memory while each runs, with the base of its part
  std::optional<RematParts> parts;  // where the problem has a boundary
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::string to_text() const;
};

/// Replays a schedule: a JSON list of op ids, or an object with such a list named "schedule" and,
/// where the problem has a boundary, its "boundary_step". Without that the boundary is where the
/// peak is smallest.
[[nodiscard]] RematCheck check_remat(const std::string& problem_file,
                                     const std::string& schedule_file);

}  // namespace snug
