// SPDX-License-Identifier: Apache-2.0
#include "choose/refusal.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/units.h"
#include "choose/hints.h"

namespace snug::choose {
namespace {

// Words for the command line first, then at least three blanks, so that tools can cut there too.
std::string hint_line(const std::string& words, const std::string& note) {
  return fmt::format("    {:<24}   {}\n", words, note);
}

// From which budget a run with a hint works, and the one that was asked for: rounded as everywhere,
// but more exactly where the first, rounded up, would be above the second.
std::pair<std::string, std::string> budgets(int64_t least_bytes, int64_t asked_bytes) {
  std::string least = format_bytes_up(least_bytes);
  std::string asked = format_bytes(asked_bytes);
  if (parse_bytes(least, "memory") <= asked_bytes) return {least, asked};
  const int64_t least_kib = round_up(least_bytes, 1024) / 1024;
  if (least_kib <= asked_bytes / 1024)
    return {fmt::format("{} KiB", least_kib), fmt::format("{} KiB", asked_bytes / 1024)};
  return {fmt::format("{} B", least_bytes), fmt::format("{} B", asked_bytes)};
}

// Why it does not fit: a proof, or the best that was found and the bound.
std::string proof_text(const RunPlanRequest& request, const PlacedCandidate& smallest) {
  const BatchSplit& split = *smallest.split;
  const int64_t arena_budget = request.budget_bytes - request.process_bytes - split.resident_bytes;
  if (request.startup_bytes > request.budget_bytes)
    return fmt::format(
        "  proof: reading the data, a vocabulary and planning need {} by themselves\n",
        format_bytes(request.startup_bytes));
  if (arena_budget < 0)
    return fmt::format("  proof: that alone is {} over the budget\n", format_bytes(-arena_budget));
  const plan::Refusal refusal = plan::refuse(split.problem(), *split.frontier, arena_budget);
  std::string text =
      refusal.is_proved
          ? fmt::format("  proof: {} are left, but {} needs {} for its own operands:\n",
                        format_bytes(arena_budget), refusal.op_name,
                        format_bytes(refusal.bound.bytes))
          : fmt::format(
                "  no plan found: {} are left, the best plan needs {}; the bound is {} ({}), "
                "the gap {}\n",
                format_bytes(arena_budget), format_bytes(smallest.arena_bytes),
                format_bytes(refusal.bound.bytes), refusal.op_name,
                format_bytes(refusal.gap_bytes));
  for (size_t i = 0; i < refusal.operands.size() && i < 6; ++i) {
    text += fmt::format("    {:>11}  {}\n", format_bytes(refusal.operands[i].bytes),
                        refusal.operands[i].name);
  }
  return text;
}

// The smallest budget first.
std::string ways_text(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                      const PlacedCandidate& smallest, const Backend& backend) {
  const int64_t budget = round_up(smallest.peak_bytes, kPageBytes);
  const char* turn = request.trains ? "an update" : "a batch";
  std::string text = "  cheapest ways to fit:\n";
  text += hint_line(spec::option_words(request.words, "memory", std::to_string(budget)),
                    fmt::format("{}; {} {}", format_bytes_up(budget),
                                format_seconds(smallest.step_seconds), turn));
  for (const Hint& hint : hints_for(request, candidates, backend)) {
    const auto [least, asked] = budgets(hint.least_bytes, request.budget_bytes);
    const bool is_at_most = hint.is_at_most || request.may_take_levers;
    text += hint_line(hint.words,
                      fmt::format("fits from {}; {}{} {} at {}{}", least,
                                  is_at_most ? "at most " : "", format_seconds(hint.step_seconds),
                                  turn, asked, hint.changes_result ? " (other results)" : ""));
  }
  text.pop_back();  // the end of the last line
  return text;
}

}  // namespace

Error refusal_of(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                 const Backend& backend) {
  const PlacedCandidate smallest = smallest_of(candidates, request);
  const int64_t smallest_budget = round_up(smallest.peak_bytes, kPageBytes);
  const int64_t resident_bytes = smallest.split->resident_bytes;
  std::string text = fmt::format(
      "the run does not fit {}; the smallest budget that works is {} ({} bytes)\n",
      format_bytes(request.budget_bytes), format_bytes_up(smallest_budget), smallest_budget);
  text += fmt::format("  process {} + resident {} ({}) = {}\n", format_bytes(request.process_bytes),
                      format_bytes(resident_bytes),
                      request.trains ? "weights, states, gradients, batch" : "weights, batch",
                      format_bytes(request.process_bytes + resident_bytes));
  text += proof_text(request, smallest);
  text += ways_text(request, candidates, smallest, backend);
  return Error(ErrorCode::out_of_budget, "memory", text);
}

}  // namespace snug::choose
