// SPDX-License-Identifier: Apache-2.0
#include "fit/hints.h"

#include <algorithm>
#include <optional>

#include "base/stop.h"
#include "plan/frontier/frontier.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int32_t kMostSearches = 10;      // frontiers from scratch
constexpr int64_t kBuiltShare = 3;         // of the ops of the request's own splits
constexpr int64_t kBuiltAlways = 200'000;  // about a second
constexpr size_t kMostSingles = 8;
constexpr size_t kMostPairs = 2;
constexpr size_t kMostExact = 2;  // settings from the first on that seemed to fit

struct Found {
  int64_t least_bytes = 0;  // of the smallest plan found
  double step_seconds = 0;  // of the fastest within the budget
};

// Plans variations of one request, as a run would plan them.
class Trials {
 public:
  Trials(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
         const Backend& backend)
      : backend_(backend), smallest_(smallest_of(candidates, request).split->micro_batch) {
    for (const Candidate& candidate : candidates) {
      if (known_.empty() || known_.back() != candidate.split) known_.push_back(candidate.split);
    }
    std::sort(known_.begin(), known_.end());
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    for (const Split* split : known_)
      ops_left_ += kBuiltShare * static_cast<int64_t>(split->problem().ops.size());
    ops_left_ = std::max(ops_left_, kBuiltAlways);
  }

  /// `as_run`: with the schedules that a run would find. `by_likeness`: with those of the request
  /// itself where the programs have the same ops, for a first look at many sizes.
  enum class Planning : uint8_t { as_run, by_likeness };

  /// A plan within the request's budget; nothing where none was found, or where no more searches
  /// are left.
  std::optional<Found> fitting(const RunPlanRequest& request, Planning planning) {
    std::vector<Split> splits = possible_splits(request);
    for (Split& split : splits) {
      stop_point();
      const auto found = planned(request, split, planning);
      if (found) return found;
    }
    return std::nullopt;
  }

  /// Whether no bound says that the request cannot fit.
  bool is_possible(const RunPlanRequest& request) { return !possible_splits(request).empty(); }

  /// Nothing where the words would be refused.
  static std::optional<RunPlanRequest> applied(const RunPlanRequest& request,
                                               const Lever::Setting& setting) {
    try {
      return setting.apply(request);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_config) throw;
      return std::nullopt;
    }
  }
  /// The request with this setting.
  std::optional<Found> fitting(const RunPlanRequest& request, const Lever::Setting& setting,
                               Planning planning) {
    const auto changed = applied(request, setting);
    return changed ? fitting(*changed, planning) : std::nullopt;
  }

 private:
  // The splits that are the smallest of most runs, those alone whose bound is within the budget;
  // smallest bound first.
  std::vector<Split> possible_splits(const RunPlanRequest& request) {
    try {
      return splits_within(request);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_config) throw;
      return {};  // the words would be refused
    }
  }

  std::vector<Split> splits_within(const RunPlanRequest& request) {
    const std::vector<int64_t> sizes = micro_batches_of(request);
    std::vector<Split> splits;
    UpdatePrograms update;
    for (const int64_t size : sizes) {
      if (size != sizes.front() && size != sizes.back() && size != smallest_) continue;
      for (const bool has_two_passes : {false, true}) {
        if (!may_have_passes(request, size, has_two_passes)) continue;
        if (ops_left_ <= 0) break;
        Split split = make_unplanned_split(request, {size, has_two_passes}, backend_, update);
        // In 16 bits it looked at every length.
        const size_t programs = request.has_16_bits ? request.lengths.size() : 1;
        ops_left_ -= static_cast<int64_t>(split.problem().ops.size() * programs);
        split.let_graph_go();
        if (least_peak_bytes(split, request) <= request.budget_bytes)
          splits.push_back(std::move(split));
      }
    }
    std::stable_sort(splits.begin(), splits.end(), [&](const Split& a, const Split& b) {
      return least_peak_bytes(a, request) < least_peak_bytes(b, request);
    });
    return splits;
  }

  std::optional<Found> planned(const RunPlanRequest& request, Split& split, Planning planning) {
    Splits made;
    if (const Split* known = equal_split(request, split)) {
      // The same program: the run would find the same schedules.
      split.frontier = known->frontier;
      made.list.push_back(std::move(split));
    } else if (const Split* alike = alike_split(request, split, planning)) {
      split.frontier = plan::build_frontier_like(split.problem(), alike->problem(),
                                                 *alike->frontier, plan::kQuickFrontier);
      made.list.push_back(std::move(split));
    } else {
      if (searches_ >= kMostSearches) return std::nullopt;
      ++searches_;
      RunPlanRequest given = request;
      given.micro_batch = split.micro_batch;
      given.on_progress = {};
      made = make_splits(given, backend_);
    }
    const std::vector<Candidate> candidates = candidates_of(made.list, request);
    const auto found = best_within(candidates, request);
    if (!found) return std::nullopt;
    return Found{smallest_of(candidates, request).peak_bytes, found->step_seconds};
  }

  [[nodiscard]] const Split* equal_split(const RunPlanRequest& request, const Split& split) const {
    if (!request.strategy.empty()) return nullptr;
    for (const Split* known : known_) {
      if (known->frontier->points().size() > 1 && known->has_two_passes == split.has_two_passes &&
          known->problem() == split.problem())
        return known;
    }
    return nullptr;
  }

  [[nodiscard]] const Split* alike_split(const RunPlanRequest& request, const Split& split,
                                         Planning planning) const {
    if (planning == Planning::as_run || !request.strategy.empty()) return nullptr;
    for (const Split* known : known_) {
      if (known->frontier->points().size() > 1 &&
          plan::has_same_structure(known->problem(), split.problem()))
        return known;
    }
    return nullptr;
  }

  const Backend& backend_;
  int64_t smallest_;                 // micro-batch of the plan that needs least
  std::vector<const Split*> known_;  // those of the request itself
  int32_t searches_ = 0;
  int64_t ops_left_ = 0;  // that may still be built
};

Hint hint_of(const Lever& lever, size_t setting, const Found& found) {
  return {lever.settings[setting].words, found.least_bytes, found.step_seconds,
          lever.changes_result};
}

// The first of the settings that fits. Later ones need less: the last one's bound tells whether any
// can, and halving finds the first, which is then planned as a run would.
std::optional<Hint> first_fitting(const RunPlanRequest& request, const Lever& lever,
                                  Trials& trials) {
  const auto& settings = lever.settings;
  const auto last = Trials::applied(request, settings.back());
  if (!last || !trials.is_possible(*last)) return std::nullopt;
  size_t first = 0;
  for (size_t end = settings.size(); first + 1 < settings.size() && first < end;) {
    const size_t middle = (first + end) / 2;
    if (trials.fitting(request, settings[middle], Trials::Planning::by_likeness)) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  for (size_t i = first; i < std::min(settings.size(), first + kMostExact); ++i) {
    const auto found = trials.fitting(request, settings[i], Trials::Planning::as_run);
    if (found) return hint_of(lever, i, *found);
  }
  return std::nullopt;
}

// Of two levers that do not do alone: the first setting of the first, and what the second then
// needs.
std::optional<Hint> both_fitting(const RunPlanRequest& request, const Lever& first,
                                 const Lever& second, Trials& trials) {
  const Lever::Setting& setting = first.settings[first.settings.size() / 2];
  const auto changed = Trials::applied(request, setting);
  if (!changed) return std::nullopt;
  std::optional<Hint> hint = first_fitting(*changed, second, trials);
  if (!hint) return std::nullopt;
  hint->words = setting.words + " " + hint->words;
  hint->changes_result = hint->changes_result || first.changes_result;
  return hint;
}

}  // namespace

std::vector<Hint> hints_for(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                            const Backend& backend) {
  const std::vector<Lever> levers = levers_of(request);
  Trials trials(request, candidates, backend);
  std::vector<Hint> hints;
  std::vector<const Lever*> insufficient;
  for (const Lever& lever : levers) {
    if (!lever.is_hint) continue;
    std::optional<Hint> hint;
    if (hints.size() < kMostSingles) hint = first_fitting(request, lever, trials);
    if (hint) hints.push_back(std::move(*hint));
    if (!hint) insufficient.push_back(&lever);
  }
  if (!hints.empty()) return hints;
  for (size_t j = 1; j < insufficient.size(); ++j) {
    for (size_t i = 0; i < j && hints.size() < kMostPairs; ++i) {
      if (insufficient[i]->part == insufficient[j]->part) continue;
      auto hint = both_fitting(request, *insufficient[i], *insufficient[j], trials);
      if (hint) hints.push_back(std::move(*hint));
    }
  }
  return hints;
}

}  // namespace snug::train
