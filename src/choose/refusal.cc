// SPDX-License-Identifier: Apache-2.0
#include "choose/refusal.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/units.h"
#include "choose/hints.h"
#include "spec/table.h"

namespace snug::choose {
namespace {

// Words for the command line first, then at least three blanks, so that tools can cut there too.
std::string line_of(const std::string& words, const std::string& note) {
  return fmt::format("{:<24}   {}", words, note);
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

// Why it does not fit: what is held anyway, then a proof, or the best that was found and the bound.
std::string proof_text(const RunPlanRequest& request, const PlacedCandidate& smallest) {
  const BatchSplit& split = *smallest.split;
  const int64_t held_bytes = request.process_bytes + split.resident_bytes;
  const int64_t arena_budget = request.budget_bytes - held_bytes;
  std::string text =
      fmt::format("  process {} + resident {} ({}) = {}\n", format_bytes(request.process_bytes),
                  format_bytes(split.resident_bytes),
                  request.trains ? "weights, states, gradients, batch" : "weights, batch",
                  format_bytes(held_bytes));
  if (request.startup_bytes > request.budget_bytes)
    return text +
           fmt::format(
               "  proof: reading the data, a vocabulary and planning need {} by themselves\n",
               format_bytes(request.startup_bytes));
  if (arena_budget < 0)
    return text +
           fmt::format("  proof: that alone is {} over the budget\n", format_bytes(-arena_budget));
  const plan::Refusal refusal = plan::refuse(split.problem(), *split.frontier, arena_budget);
  text += refusal.is_proved
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

// Keys as who reads them sets them: of a run, or fields of a session's options. A session has
// lengths in place of max_seq_length, which no value of one key changes.
LeverKeys keys_for(const RunPlanRequest& request, const LeverKeys& keys) {
  if (request.words == spec::OptionWords::command_line) return keys;
  LeverKeys fields;
  for (const auto& [key, value] : keys) {
    const spec::Field* const field = spec::find_key(key);
    if (field == nullptr) return {};
    fields.emplace_back(field->name, spec::field_value(key, value));
  }
  return fields;
}

// The smallest budget first.
std::vector<WayToFit> ways_of(const RunPlanRequest& request,
                              const std::vector<Candidate>& candidates,
                              const PlacedCandidate& smallest, const Backend& backend) {
  const int64_t budget = round_up(smallest.peak_bytes, kPageBytes);
  const char* turn = request.trains ? "an update" : "a batch";
  std::vector<WayToFit> ways = {
      {.keys = {{"memory", std::to_string(budget)}},
       .least_bytes = budget,
       .step_seconds = smallest.step_seconds,
       .text = line_of(spec::option_words(request.words, "memory", std::to_string(budget)),
                       fmt::format("{}; {} {}", format_bytes_up(budget),
                                   format_seconds(smallest.step_seconds), turn))}};
  for (const Hint& hint : hints_for(request, candidates, backend)) {
    const auto [least, asked] = budgets(hint.least_bytes, request.budget_bytes);
    const bool is_at_most = hint.is_at_most || request.may_take_levers;
    ways.push_back(
        {.keys = keys_for(request, hint.keys),
         .least_bytes = hint.least_bytes,
         .step_seconds = hint.step_seconds,
         .changes_result = hint.changes_result,
         .text = line_of(hint.words, fmt::format("fits from {}; {}{} {} at {}{}", least,
                                                 is_at_most ? "at most " : "",
                                                 format_seconds(hint.step_seconds), turn, asked,
                                                 hint.changes_result ? " (other results)" : ""))});
  }
  return ways;
}

// Without what sets it off in the whole text.
std::string without_margin(std::string lines) {
  lines = lines.substr(lines.find_first_not_of(' '));
  while (!lines.empty() && lines.back() == '\n') lines.pop_back();
  return lines;
}

}  // namespace

DoesNotFit refusal_of(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
                      const Backend& backend) {
  const PlacedCandidate smallest = smallest_of(candidates, request);
  const int64_t smallest_budget = round_up(smallest.peak_bytes, kPageBytes);
  RefusalFacts facts{.proof = proof_text(request, smallest),
                     .smallest_bytes = smallest_budget,
                     .ways = ways_of(request, candidates, smallest, backend)};
  std::string text = fmt::format(
      "the run does not fit {}; the smallest budget that works is {} ({} bytes)\n{}  cheapest ways "
      "to fit:",
      format_bytes(request.budget_bytes), format_bytes_up(smallest_budget), smallest_budget,
      facts.proof);
  for (const WayToFit& way : facts.ways) text += "\n    " + way.text;
  facts.proof = without_margin(facts.proof);
  return DoesNotFit("memory", text, std::move(facts));
}

}  // namespace snug::choose
