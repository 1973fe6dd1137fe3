// SPDX-License-Identifier: Apache-2.0
// Levers: changes of a run that change what it needs, each as keys of a run configuration with
// their values, and planned rather than guessed (docs/levers.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace snug {

/// Keys of a run configuration and their values, as the command line takes them.
using LeverKeys = std::vector<std::pair<std::string, std::string>>;

/// What a run may be allowed (`allow`): levers that lead to other weights.
inline constexpr std::array<const char*, 8> kLeverWords = {
    "bf16", "fp16", "bf16x8", "bfloat16", "adam8bit", "freeze", "lora", "optim"};

/// A run with these keys set, planned.
struct LeverPlan {
  LeverKeys keys;                  // empty: the run as it is asked for
  int64_t planned_peak_bytes = 0;  // within the budget; where it does not fit, within its smallest
  int64_t smallest_budget_bytes = 0;
  double step_seconds = 0;      // of that plan
  bool changes_result = false;  // other weights at the end than those of the run as asked for
  bool fits = false;            // within the budget
};

/// The fastest of them that fits, the first of equally fast ones; null where none fits.
[[nodiscard]] const LeverPlan* fastest_fitting(const std::vector<LeverPlan>& plans);
/// The one that works in the smallest budget, the first of equal ones. `plans`: not empty.
[[nodiscard]] const LeverPlan& smallest_of(const std::vector<LeverPlan>& plans);

/// --key value, for a command line.
[[nodiscard]] std::string to_words(const LeverKeys& keys);
/// A JSON list with an object for each.
[[nodiscard]] std::string to_json(const std::vector<LeverPlan>& plans);
/// A table; the first plan is what the others are compared with.
[[nodiscard]] std::string to_text(const std::vector<LeverPlan>& plans, int64_t budget_bytes);

}  // namespace snug
