// SPDX-License-Identifier: Apache-2.0
// Variations of a request that does not fit, each planned as a run would plan it, in bounded work:
// the splits whose bound exceeds the budget are not planned, nor those that cannot be faster than
// what was found.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "choose/build_split.h"
#include "choose/candidates.h"
#include "choose/levers.h"

namespace snug::choose {

/// What all variations share: the splits of the request itself, whose schedules serve where the
/// programs are the same, and the work that is left. Counts, never clocks.
class Trials {
 public:
  /// `candidates`: the request's own.
  Trials(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
         const Backend& backend);

  /// The request with this setting; nothing where the keys do not go together with its own, or
  /// where no work is left.
  [[nodiscard]] std::optional<RunPlanRequest> changed(const RunPlanRequest& request,
                                                      const Lever::Setting& setting);
  /// So many variations to come are to find a search left, and splits to build.
  void keep_work(int64_t count) {
    kept_ops_ = count * ops_;
    kept_built_ops_ = count * kBuiltEach * ops_;
  }

 private:
  friend class Variation;

  static constexpr int64_t kBuiltEach = 5;  // splits of most variations that have few sizes

  const Backend& backend_;
  int64_t smallest_;                      // micro-batch of the plan that needs least
  std::vector<const BatchSplit*> known_;  // those of the request itself
  int64_t ops_ = 0;                       // of one of them
  int64_t ops_left_ = 0;                  // that may still be built
  int64_t searched_ops_left_ = 0;         // in frontiers from scratch
  int64_t kept_ops_ = 0;                  // of these
  int64_t kept_built_ops_ = 0;            // of ops_left_
};

/// One of them.
class Variation {
 public:
  struct Found {
    int64_t least_bytes = 0;  // of the smallest plan found
    double step_seconds = 0;  // of the fastest within the budget
    bool is_at_most = false;  // no work was left for splits that may be faster
  };

  /// Builds the splits that are the smallest of most runs.
  Variation(Trials& trials, RunPlanRequest request);

  /// Whether no bound says that it cannot fit.
  [[nodiscard]] bool is_possible() const { return !possible_.empty(); }
  /// With the schedules of the request itself where the programs have the same ops: a first look.
  [[nodiscard]] bool fits_by_likeness();
  /// As a run would plan it; nothing where no plan fits, or where no more searches are left.
  [[nodiscard]] std::optional<Found> planned();

 private:
  struct Form {
    int64_t micro_batch = 0;
    bool has_two_passes = false;
    bool packs_weights = false;
    auto operator<=>(const Form&) const = default;
  };

  void build_smallest();
  [[nodiscard]] BatchSplit* built(const Form& form);
  [[nodiscard]] bool is_within(const BatchSplit& split) const;
  [[nodiscard]] bool is_searched() const;
  [[nodiscard]] bool plan(BatchSplit& split, int64_t kept_ops);
  [[nodiscard]] bool search(BatchSplit& split, int64_t kept_ops);
  [[nodiscard]] const BatchSplit* equal_split(const BatchSplit& split) const;
  [[nodiscard]] const BatchSplit* alike_split(const BatchSplit& split) const;
  void note_fastest(const BatchSplit& split, std::optional<Found>& found) const;
  void note_smallest(const BatchSplit& split, Found& found) const;
  [[nodiscard]] std::vector<int64_t> likely_fastest(std::vector<int64_t> sizes) const;
  void find_faster(Found& found);
  void try_forms(int64_t micro_batch, bool has_two_passes, Found& found);
  void try_faster(const Form& form, Found& found);

  Trials& trials_;
  RunPlanRequest request_;
  std::vector<int64_t> sizes_;  // micro-batches that a run would try, largest first
  UpdatePrograms update_;
  std::map<Form, BatchSplit> splits_;  // that were built
  std::vector<BatchSplit*> possible_;  // the smallest ones, smallest bound first
};

}  // namespace snug::choose
