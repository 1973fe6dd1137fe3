// SPDX-License-Identifier: Apache-2.0
#include "train/refusal.h"

#include <fmt/format.h>

#include "base/units.h"

namespace snug::train {

Error refusal_of(const RunPlanRequest& request, const std::vector<Candidate>& candidates) {
  const PlacedCandidate smallest = smallest_of(candidates, request);
  const Split& split = *smallest.split;
  const int64_t fixed = request.process_bytes + split.resident_bytes;
  const int64_t arena_budget = request.budget_bytes - fixed;
  const int64_t smallest_budget = round_up(smallest.peak_bytes, kPageBytes);
  std::string text = fmt::format(
      "the run does not fit {}; the smallest budget that works is {} ({} bytes)\n",
      format_bytes(request.budget_bytes), format_bytes_up(smallest_budget), smallest_budget);
  text += fmt::format("  process {} + resident {} (weights, states, gradients, batch) = {}\n",
                      format_bytes(request.process_bytes), format_bytes(split.resident_bytes),
                      format_bytes(fixed));
  if (request.startup_bytes > request.budget_bytes) {
    text +=
        fmt::format("  proof: reading the data, a vocabulary and planning need {} by themselves\n",
                    format_bytes(request.startup_bytes));
  } else if (arena_budget < 0) {
    text += fmt::format("  proof: that alone is {} over the budget\n", format_bytes(-arena_budget));
  } else {
    const plan::Refusal refusal = plan::refuse(*split.problem, *split.frontier, arena_budget);
    if (refusal.is_proved) {
      text += fmt::format("  proof: {} are left, but {} needs {} for its own operands:\n",
                          format_bytes(arena_budget), refusal.op_name,
                          format_bytes(refusal.bound.bytes));
    } else {
      text += fmt::format(
          "  no plan found: {} are left, the best plan needs {}; the bound is {} ({}), the gap "
          "{}\n",
          format_bytes(arena_budget), format_bytes(smallest.arena_bytes),
          format_bytes(refusal.bound.bytes), refusal.op_name, format_bytes(refusal.gap_bytes));
    }
    for (size_t i = 0; i < refusal.operands.size() && i < 6; ++i) {
      text += fmt::format("    {:>11}  {}\n", format_bytes(refusal.operands[i].bytes),
                          refusal.operands[i].name);
    }
  }
  text += "  cheapest ways to fit:\n";
  text += fmt::format("    --memory {} (micro-batch {}, {} per update)\n", smallest_budget,
                      split.micro_batch, format_seconds(smallest.step_seconds));
  if (request.micro_batch > 1)
    text += "    --micro_batch_size auto, so that the batch may be split further\n";
  const bool is_whole = request.model->has_batch_statistics() && request.trains;
  if (is_whole && !request.allow_batch_norm_split && request.global_batch > 1)
    text +=
        "    --allow_batch_norm_split, to train on the statistics of micro-batches (other "
        "results)\n"
        "    --train_batch_size, a smaller batch\n";
  if (!request.recompute.strategy.empty()) text += "    --recompute auto\n";
  if (request.model->image_size() == 0 && request.lengths.back() > 64)
    text += fmt::format("    --max_seq_length {} (now {})\n", request.lengths.back() / 2,
                        request.lengths.back());
  const bool has_embeddings = request.model->vocab_size() > 0;
  if (request.trains && has_embeddings && request.recipe.freeze.empty()) {
    text +=
        "    --freeze '*embeddings*', which needs neither gradients nor states for those weights\n";
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return Error(ErrorCode::out_of_budget, "memory", text);
}

}  // namespace snug::train
