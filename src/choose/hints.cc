// SPDX-License-Identifier: Apache-2.0
#include "choose/hints.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "choose/trials.h"

namespace snug::choose {
namespace {

constexpr size_t kMostSingles = 8;
constexpr size_t kMostPairs = 2;
constexpr size_t kMostExact = 2;    // settings from the first on that seemed to fit
constexpr size_t kFewSettings = 3;  // tried one by one

using Found = Variation::Found;

// The request with one setting; nothing where it would be refused.
std::optional<Variation> variation(const RunPlanRequest& request, const Lever::Setting& setting,
                                   Trials& trials) {
  std::optional<RunPlanRequest> changed = trials.changed(request, setting);
  if (!changed) return std::nullopt;
  return std::optional<Variation>(std::in_place, trials, std::move(*changed));
}

Hint hint_of(const Lever& lever, size_t setting, const Found& found) {
  return {.words = lever.settings[setting].words,
          .keys = lever.settings[setting].keys,
          .least_bytes = found.least_bytes,
          .step_seconds = found.step_seconds,
          .is_at_most = found.is_at_most,
          .changes_result = lever.changes_result};
}

// The first of many settings that seems to fit: the last one's bound tells whether any can, and
// halving finds the first.
std::optional<size_t> first_likely(const RunPlanRequest& request, const Lever& lever,
                                   Trials& trials) {
  const auto& settings = lever.settings;
  const std::optional<Variation> last = variation(request, settings.back(), trials);
  if (!last || !last->is_possible()) return std::nullopt;
  size_t first = 0;
  for (size_t end = settings.size(); first < end;) {
    const size_t middle = (first + end) / 2;
    std::optional<Variation> tried = variation(request, settings[middle], trials);
    if (tried && tried->fits_by_likeness()) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

// The first of the settings that fits; later ones need less.
std::optional<Hint> first_fitting(const RunPlanRequest& request, const Lever& lever,
                                  Trials& trials) {
  const auto& settings = lever.settings;
  size_t first = 0;
  size_t end = settings.size();
  if (settings.size() > kFewSettings) {
    const std::optional<size_t> likely = first_likely(request, lever, trials);
    if (!likely) return std::nullopt;
    first = *likely;
    end = std::min(end, first + kMostExact);
  }
  for (size_t i = first; i < end; ++i) {
    std::optional<Variation> tried = variation(request, settings[i], trials);
    const std::optional<Found> found = tried ? tried->planned() : std::nullopt;
    if (found) return hint_of(lever, i, *found);
  }
  return std::nullopt;
}

// Two levers that do not do alone: the first setting of the first, and what the second then needs.
std::optional<Hint> both_fitting(const RunPlanRequest& request, const Lever& first,
                                 const Lever& second, Trials& trials) {
  const Lever::Setting& setting = first.settings.size() > kFewSettings
                                      ? first.settings[first.settings.size() / 2]
                                      : first.settings.back();
  const auto changed = trials.changed(request, setting);
  if (!changed) return std::nullopt;
  std::optional<Hint> hint = first_fitting(*changed, second, trials);
  if (!hint) return std::nullopt;
  hint->words = setting.words + " " + hint->words;
  hint->keys.insert(hint->keys.begin(), setting.keys.begin(), setting.keys.end());
  hint->changes_result = hint->changes_result || first.changes_result;
  return hint;
}

// Whether it sets all that one of these sets, and more.
bool is_more_than(const Lever& lever, const std::vector<LeverKeys>& fitting) {
  const LeverKeys& keys = lever.settings.front().keys;
  return std::any_of(fitting.begin(), fitting.end(), [&](const LeverKeys& fewer) {
    return !fewer.empty() && std::all_of(fewer.begin(), fewer.end(), [&](const auto& key) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    });
  });
}

}  // namespace

std::vector<Hint> hints_for(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                            const Backend& backend) {
  const std::vector<Lever> levers = levers_of(request);
  Trials trials(request, candidates, backend);
  std::vector<Hint> hints;
  std::vector<LeverKeys> fitting;
  std::vector<const Lever*> insufficient;
  for (size_t i = 0; i < levers.size(); ++i) {
    const Lever& lever = levers[i];
    if (!lever.is_hint || is_more_than(lever, fitting)) continue;
    const auto left = std::count_if(levers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                    levers.end(), [](const Lever& each) { return each.is_hint; });
    trials.keep_work(left);
    if (request.on_progress)
      request.on_progress(static_cast<int64_t>(i), static_cast<int64_t>(levers.size()),
                          "looking for ways to fit");
    std::optional<Hint> hint;
    if (hints.size() < kMostSingles) hint = first_fitting(request, lever, trials);
    if (hint) {
      fitting.push_back(lever.settings.front().keys);
      hints.push_back(std::move(*hint));
    } else {
      insufficient.push_back(&lever);
    }
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

}  // namespace snug::choose
