// SPDX-License-Identifier: Apache-2.0
// Levers as a list for programs and as a table for people.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/shell.h"
#include "base/units.h"
#include "report/percent.h"
#include "snug/levers.h"

namespace snug {
namespace {

std::string change(double value, double from) {
  return from > 0 ? report::signed_percent(value / from - 1) : "";
}

}  // namespace

const LeverPlan* fastest_fitting(const std::vector<LeverPlan>& plans) {
  const LeverPlan* fastest = nullptr;
  for (const LeverPlan& plan : plans) {
    if (plan.fits && (fastest == nullptr || plan.step_seconds < fastest->step_seconds))
      fastest = &plan;
  }
  return fastest;
}

const LeverPlan& smallest_of(const std::vector<LeverPlan>& plans) {
  return *std::min_element(plans.begin(), plans.end(), [](const LeverPlan& a, const LeverPlan& b) {
    return a.smallest_budget_bytes < b.smallest_budget_bytes;
  });
}

std::string to_words(const LeverKeys& keys) {
  std::string words;
  for (const auto& [key, value] : keys)
    words += (words.empty() ? "--" : " --") + key + " " + shell_word(value);
  return words;
}

std::string to_json(const std::vector<LeverPlan>& plans) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LeverPlan& plan : plans) {
    nlohmann::ordered_json keys = nlohmann::ordered_json::object();
    for (const auto& [key, value] : plan.keys) keys[key] = value;
    list.push_back({{"keys", keys},
                    {"planned_peak_bytes", plan.planned_peak_bytes},
                    {"smallest_budget_bytes", plan.smallest_budget_bytes},
                    {"step_seconds", plan.step_seconds},
                    {"changes_result", plan.changes_result},
                    {"fits", plan.fits}});
  }
  return list.dump(2);
}

std::string to_text(const std::vector<LeverPlan>& plans, int64_t budget_bytes) {
  std::string out = fmt::format(
      "levers at a budget of {}; where one does not fit, its plan is that of its "
      "smallest budget\n\n  {:>11}  {:>6}  {:>11}  {:>6}  {:>9}  {:>6}  {:<4}  {:<6}\n",
      format_bytes_up(budget_bytes), "peak", "", "smallest", "", "update", "", "fits", "result");
  if (plans.empty()) return out;
  const LeverPlan& first = plans.front();
  const auto percent = [](int64_t value, int64_t from) {
    return change(static_cast<double>(value), static_cast<double>(from));
  };
  for (const LeverPlan& plan : plans) {
    const bool is_first = &plan == &first;
    out += fmt::format(
        "  {:>11}  {:>6}  {:>11}  {:>6}  {:>9}  {:>6}  {:<4}  {:<6}  {}\n",
        format_bytes_up(plan.planned_peak_bytes),
        is_first ? "" : percent(plan.planned_peak_bytes, first.planned_peak_bytes),
        format_bytes_up(plan.smallest_budget_bytes),
        is_first ? "" : percent(plan.smallest_budget_bytes, first.smallest_budget_bytes),
        format_seconds(plan.step_seconds),
        is_first ? "" : change(plan.step_seconds, first.step_seconds), plan.fits ? "yes" : "no",
        plan.changes_result ? "other" : "same", is_first ? "as asked for" : to_words(plan.keys));
  }
  return out;
}

}  // namespace snug
