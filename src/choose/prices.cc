// SPDX-License-Identifier: Apache-2.0
#include "choose/prices.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace snug::choose {
namespace {

constexpr size_t kMostPrices = 8;
constexpr size_t kFewestPrices = 4;
constexpr size_t kLongProgram = 150'000;  // ops; then the smallest and the chosen plan must do
constexpr size_t kPricedSteps = 45'000;   // of all of them: placing a long schedule takes time

// Those that no other beats, largest first.
std::vector<const Candidate*> unbeaten(const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> curve;
  for (const Candidate& candidate : candidates) {
    if (curve.empty() || candidate.least_peak_bytes < curve.back()->least_peak_bytes)
      curve.push_back(&candidate);
  }
  return curve;
}

// So many points of a curve, the first and the last among them, in steps of equal ratios of bytes
// and seconds together: a steep end gets its share, and so does a flat one.
std::vector<const Candidate*> spread_along(const std::vector<const Candidate*>& curve,
                                           size_t count) {
  if (count < 2) return {curve.begin(), curve.begin() + static_cast<std::ptrdiff_t>(count)};
  const auto way_to = [&](const Candidate* at) {
    const Candidate* first = curve.front();
    return std::log(static_cast<double>(first->least_peak_bytes) /
                    static_cast<double>(at->least_peak_bytes)) +
           std::log(at->step_seconds / first->step_seconds);
  };
  const double step = way_to(curve.back()) / static_cast<double>(count - 1);
  std::vector<const Candidate*> chosen = {curve.front()};
  for (const Candidate* each : curve) {
    if (way_to(each) >= step * static_cast<double>(chosen.size()) || each == curve.back())
      chosen.push_back(each);
  }
  return chosen;
}

PriceRow row_of(const PlacedCandidate& candidate, bool is_chosen) {
  const BatchSplit& split = *candidate.split;
  return {.budget_bytes = round_up(candidate.peak_bytes, kPageBytes),
          .step_seconds = candidate.step_seconds,
          .micro_batch = split.form.micro_batch,
          .strategy = split.frontier->points()[candidate.point].strategy,
          .two_pass_clip = split.form.has_two_passes,
          .packed_weights = !split.form.packed.empty(),
          .is_chosen = is_chosen};
}

}  // namespace

std::vector<PriceRow> price_list(const RunPlanRequest& request,
                                 const std::vector<Candidate>& candidates,
                                 const PlacedCandidate& smallest, const PlacedCandidate& chosen) {
  const std::vector<const Candidate*> curve = unbeaten(candidates);
  std::vector<PlacedCandidate> shown = {smallest, chosen};
  const size_t steps = chosen.split->problem().ops.size();
  const size_t fewest = steps <= kLongProgram ? kFewestPrices : 0;
  const size_t count =
      std::min(curve.size(), std::clamp(kPricedSteps / (steps + 1), fewest, kMostPrices));
  for (const Candidate* each : spread_along(curve, count)) shown.push_back(placed(*each, request));
  std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes
                                        : a.step_seconds < b.step_seconds;
  });
  std::vector<PriceRow> rows;
  const PlacedCandidate* last = nullptr;
  for (const PlacedCandidate& each : shown) {
    const bool is_chosen = each.is_same_as(chosen);
    if (last != nullptr && each.is_same_as(*last)) continue;
    if (!is_chosen && !rows.empty() && each.step_seconds >= rows.back().step_seconds) continue;
    last = &each;
    PriceRow row = row_of(each, is_chosen);
    // Peaks of one page are one budget.
    if (!rows.empty() && rows.back().budget_bytes == row.budget_bytes) {
      if (rows.back().is_chosen) continue;
      rows.pop_back();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace snug::choose
