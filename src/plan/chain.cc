// SPDX-License-Identifier: Apache-2.0
#include "plan/chain.h"

#include <algorithm>
#include <limits>

namespace snug::plan {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr double kWork = 40e6;  // cells × transitions the table may take
constexpr int32_t kMinSlots = 160;
constexpr int32_t kMaxSlots = 1024;

}  // namespace

size_t ChainSolver::cell(int32_t a, int32_t b) const {
  // Triangular: all (a, b) with a <= b.
  const auto row = static_cast<size_t>(b);
  return (row * (row + 1) / 2 + static_cast<size_t>(a)) * static_cast<size_t>(slots_ + 1);
}

int32_t ChainSolver::slots_of(int64_t bytes) const {
  return static_cast<int32_t>((bytes + slot_bytes_ - 1) / slot_bytes_);
}

ChainSolver::ChainSolver(const std::vector<Block>& blocks, const std::vector<BlockOptions>& options)
    : blocks_(blocks), options_(options), length_(static_cast<int32_t>(blocks.size())) {
  const double cubes = static_cast<double>(length_) * length_ * length_ / 6 + 1;
  slots_ = static_cast<int32_t>(
      std::clamp(kWork / cubes, static_cast<double>(kMinSlots), static_cast<double>(kMaxSlots)));
  // The largest budget that can matter: everything kept, at the worst moment.
  int64_t saved = 0;
  int64_t most = 1;
  for (const BlockOptions& block : options_) {
    if (block.options.empty()) {
      slots_ = 0;
      return;
    }
    const BlockOption& keep = block.options.front();
    most = std::max({most, saved + keep.forward_peak_bytes,
                     saved + keep.backward_peak_bytes + block.foreign_bytes,
                     saved + block.advance_peak_bytes + block.entry_bytes});
    saved += keep.saved_bytes;
  }
  // Rounding up costs about half a slot a block; the table reaches that much further.
  slot_bytes_ = std::max<int64_t>(1, (most + slots_ - length_ - 1) / std::max(1, slots_ - length_));
  for (const BlockOptions& block : options_) {
    input_slots_.push_back(slots_of(block.input_bytes));
    entry_slots_.push_back(slots_of(block.entry_bytes));
    advance_slots_.push_back(slots_of(block.advance_peak_bytes));
    auto& list = option_slots_.emplace_back();
    for (const BlockOption& option : block.options) {
      list.push_back({slots_of(option.saved_bytes), slots_of(option.forward_peak_bytes),
                      slots_of(option.backward_peak_bytes + block.foreign_bytes),
                      static_cast<float>(block.forward_seconds + option.recompute_seconds)});
    }
  }
  const auto rows = static_cast<size_t>(length_);
  const size_t cells = rows * (rows + 1) / 2 * static_cast<size_t>(slots_ + 1);
  seconds_.assign(cells, kInfinite);
  choice_.assign(cells, 0);
  for (int32_t distance = 0; distance < length_; ++distance) {
    for (int32_t a = 0; a + distance < length_; ++a) solve_one(a, a + distance);
  }
}

void ChainSolver::solve_one(int32_t a, int32_t b) {
  float* const best = &seconds_[cell(a, b)];
  int16_t* const choice = &choice_[cell(a, b)];
  // While blocks run forward again, what the backward part has made so far is there too.
  const int32_t beside = b == length_ - 1 ? 0 : entry_slots_[static_cast<size_t>(b)];
  const auto& list = option_slots_[static_cast<size_t>(a)];
  for (size_t k = 0; k < list.size(); ++k) {
    const OptionSlots& option = list[k];
    const int32_t need =
        std::max({option.forward_peak + beside, option.backward_peak, option.saved});
    const float* const rest = a < b ? &seconds_[cell(a + 1, b)] : nullptr;
    for (int32_t m = need; m <= slots_; ++m) {
      const float time = option.seconds + (rest == nullptr ? 0.0f : rest[m - option.saved]);
      if (time < best[m]) {
        best[m] = time;
        choice[m] = static_cast<int16_t>(k);
      }
    }
  }
  float advance = 0;
  int32_t advance_need = 0;
  const int32_t input = input_slots_[static_cast<size_t>(a)];
  for (int32_t j = a + 1; j <= b; ++j) {
    const auto previous = static_cast<size_t>(j - 1);
    advance += static_cast<float>(options_[previous].forward_seconds);
    advance_need =
        std::max(advance_need, advance_slots_[previous] + (j - 1 > a ? input : 0) + beside);
    const float* const right = &seconds_[cell(j, b)];
    const float* const left = &seconds_[cell(a, j - 1)];
    const auto code = static_cast<int16_t>(a - j);
    for (int32_t m = std::max(advance_need, input); m <= slots_; ++m) {
      const float time = advance + right[m - input] + left[m];
      if (time < best[m]) {
        best[m] = time;
        choice[m] = code;
      }
    }
  }
}

double ChainSolver::seconds(int32_t budget_slots) const {
  if (slots_ == 0 || budget_slots < 0 || budget_slots > slots_) return kInfinite;
  return seconds_[cell(0, length_ - 1) + static_cast<size_t>(budget_slots)];
}

std::vector<int32_t> ChainSolver::distinct_budgets() const {
  std::vector<int32_t> budgets;
  float before = kInfinite;
  for (int32_t m = 0; slots_ > 0 && m <= slots_; ++m) {
    const float time = seconds_[cell(0, length_ - 1) + static_cast<size_t>(m)];
    if (time < before) budgets.push_back(m);
    before = std::min(before, time);
  }
  return budgets;
}

void ChainSolver::emit(int32_t a, int32_t b, int32_t m, std::vector<ChainAction>& out) const {
  const int16_t choice = choice_[cell(a, b) + static_cast<size_t>(m)];
  if (choice >= 0) {
    const auto k = static_cast<size_t>(choice);
    const auto block = static_cast<size_t>(a);
    out.push_back({ChainAction::Kind::forward, a, options_[block].options[k].saved, a < b});
    if (a < b) emit(a + 1, b, m - option_slots_[block][k].saved, out);
    out.push_back({ChainAction::Kind::backward, a, {}, false});
    return;
  }
  const int32_t j = a - choice;
  const StorageId input = blocks_[static_cast<size_t>(a)].input;
  for (int32_t i = a; i < j; ++i) {
    ChainAction advance{ChainAction::Kind::forward, i, {}, true};
    if (i == a && input >= 0) advance.hold.push_back(input);
    out.push_back(std::move(advance));
  }
  emit(j, b, m - input_slots_[static_cast<size_t>(a)], out);
  emit(a, j - 1, m, out);
}

std::vector<ChainAction> ChainSolver::actions(int32_t budget_slots) const {
  std::vector<ChainAction> result;
  emit(0, length_ - 1, budget_slots, result);
  return result;
}

std::vector<ChainAction> segment_actions(const std::vector<Block>& blocks,
                                         const std::vector<BlockOptions>& options,
                                         int32_t segment) {
  using Kind = ChainAction::Kind;
  const auto length = static_cast<int32_t>(blocks.size());
  std::vector<ChainAction> result;
  const auto keep_all = [&](int32_t b) {
    const auto& list = options[static_cast<size_t>(b)].options;
    return list.empty() ? std::vector<StorageId>{} : list.front().saved;
  };
  const int32_t last_begin = (length - 1) / segment * segment;
  for (int32_t b = 0; b < length; ++b) {
    const StorageId input = blocks[static_cast<size_t>(b)].input;
    ChainAction action{Kind::forward, b, {}, true};
    if (b >= last_begin) {
      action.hold = keep_all(b);
    } else if (b % segment == 0 && input >= 0) {
      action.hold.push_back(input);
    }
    result.push_back(std::move(action));
  }
  for (int32_t begin = last_begin; begin >= 0; begin -= segment) {
    const int32_t end = std::min(begin + segment, length);
    if (begin != last_begin) {
      for (int32_t b = begin; b + 1 < end; ++b)
        result.push_back({Kind::forward, b, keep_all(b), true});
      // The segment's last block: its backward makes just what it needs.
      const StorageId input = blocks[static_cast<size_t>(end - 1)].input;
      ChainAction last{Kind::forward, end - 1, {}, false};
      if (input >= 0) last.hold.push_back(input);
      result.push_back(std::move(last));
    }
    for (int32_t b = end - 1; b >= begin; --b) result.push_back({Kind::backward, b, {}, false});
  }
  return result;
}

}  // namespace snug::plan
