// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/chain.h"
#include "base/index_vector.h"
#include "base/stop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

namespace snug::plan {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr double kWork = 100e6;     // transitions × slots the table may take where it has a choice
constexpr int64_t kSlotsOfSet = 3;  // that a set between blocks takes in a good table
constexpr int32_t kMinSlots = 160;
constexpr int32_t kMaxSlots = 1024;
constexpr int64_t kMaxExactSlots = 8192;
constexpr double kMaxExactWork = 2e9;
// Rows × slots of a table with a choice. It takes no more than what it plans: a small model is not
// to need more memory for its plan than for its training.
constexpr int64_t kBytesOfCell = 12;
constexpr int64_t kMinCells = 350'000;
constexpr int64_t kMaxExactCells = 800'000;  // where each size is a number of slots
constexpr int64_t kMaxCells = 2'000'000;
constexpr int16_t kHold = -1;  // in free rows: hold the input after all

size_t triangle(int32_t a, int32_t b) {
  const auto row = static_cast<size_t>(b);
  return row * (row + 1) / 2 + static_cast<size_t>(a);
}

// What a table is to cover, whatever its slots.
struct TableSpan {
  int64_t bytes = 1;    // the largest budget that can matter: everything kept, at the worst moment
  int64_t divisor = 0;  // of all sizes
};

TableSpan span_of(const IndexVector<BlockOptions>& options) {
  TableSpan span;
  int64_t saved = 0;
  const auto count = [&](int64_t bytes) { span.divisor = std::gcd(span.divisor, bytes); };
  bool is_held = false;  // the storage between the block before and this one
  for (const BlockOptions& block : options) {
    const BlockOption& keep = block.options.front();
    if (keep.saves_input && !is_held) saved += block.input_bytes;
    span.bytes = std::max({span.bytes, saved + keep.forward_peak_bytes,
                           saved + keep.backward_peak_bytes + block.foreign_bytes,
                           saved + block.advance_peak_bytes + block.entry_bytes});
    is_held = keep.saves_output;
    saved += keep.saved_bytes - (keep.saves_input ? block.input_bytes : 0);
    count(block.input_bytes);
    count(block.entry_bytes);
    count(block.advance_peak_bytes);
    for (const BlockOption& option : block.options) {
      count(option.inner_bytes);
      count(option.forward_peak_bytes);
      count(option.backward_peak_bytes + block.foreign_bytes);
    }
  }
  return span;
}

// The size of each of `slots` slots that cover so many bytes. Rounding up costs about half a slot a
// block; the table reaches that much further.
int64_t slot_bytes_for(int64_t bytes, int32_t slots, int32_t blocks) {
  const int32_t lost = std::min(blocks, slots / 2);
  return (bytes + slots - lost - 1) / (slots - lost);
}

std::vector<SlotBlock> in_slots(const IndexVector<BlockOptions>& options, int64_t slot_bytes) {
  const auto slots_of = [&](int64_t bytes) {
    return static_cast<int32_t>((bytes + slot_bytes - 1) / slot_bytes);
  };
  std::vector<SlotBlock> result;
  for (const BlockOptions& block : options) {
    SlotBlock& in =
        result.emplace_back(SlotBlock{.runs_once = block.runs_once,
                                      .seconds = static_cast<float>(block.forward_seconds),
                                      .input = slots_of(block.input_bytes),
                                      .past = static_cast<int32_t>(block.past_bytes / slot_bytes),
                                      .entry = slots_of(block.entry_bytes),
                                      .advance_peak = slots_of(block.advance_peak_bytes),
                                      .options = {}});
    for (const BlockOption& option : block.options) {
      in.options.push_back({slots_of(option.inner_bytes), slots_of(option.forward_peak_bytes),
                            slots_of(option.backward_peak_bytes + block.foreign_bytes),
                            option.saves_input, option.saves_output,
                            static_cast<float>(block.forward_seconds + option.recompute_seconds)});
    }
  }
  return result;
}

// Where gradients wait for the global clip, what is there at a block's backward part grows along
// the chain, and a stretch that is equal to another in all else has a row of its own.
void level_entries(IndexVector<SlotBlock>& blocks) {
  int32_t most = 0;
  for (const SlotBlock& block : blocks) most = std::max(most, block.entry);
  for (SlotBlock& block : blocks) block.entry = most;
}

// Equal numbers for blocks that the recurrence cannot tell apart.
std::vector<int32_t> kinds_of(const IndexVector<SlotBlock>& blocks) {
  std::map<SlotBlock, int32_t> kinds;
  std::vector<int32_t> result;
  for (const SlotBlock& block : blocks)
    result.push_back(kinds.emplace(block, static_cast<int32_t>(kinds.size())).first->second);
  return result;
}

// The hot loop. Without branches, and on its own, so that it compiles to SIMD.
[[gnu::noinline]] void take_better(float advance, const float* __restrict right,
                                   const float* __restrict left, int32_t code, int32_t begin,
                                   int32_t end, float* __restrict held,
                                   int32_t* __restrict choice) {
  for (int32_t m = begin; m < end; ++m) {
    const float time = advance + right[m] + left[m];
    const float known = held[m];
    const int32_t mask = -static_cast<int32_t>(time < known);
    choice[m] = (choice[m] & ~mask) | (code & mask);
    held[m] = time < known ? time : known;
  }
}

// Rows of the table: one for every sequence of kinds, with or without the end of the chain.
struct TableRows {
  std::vector<int32_t> row_of;                     // per stretch, as in ChainSolver
  std::vector<std::pair<int32_t, int32_t>> solve;  // one stretch per row, short ones first
  double transitions = 0;
};

TableRows find_rows(const IndexVector<SlotBlock>& blocks) {
  const auto length = static_cast<int32_t>(blocks.size());
  const IndexVector<int32_t> kinds = kinds_of(blocks);
  TableRows rows;
  rows.row_of.resize(triangle(0, length));
  std::unordered_map<uint64_t, int32_t> known;
  for (int32_t distance = 0; distance < length; ++distance) {
    stop_point();
    known.clear();
    for (int32_t a = 0; a + distance < length; ++a) {
      const int32_t b = a + distance;
      // A stretch is its first block and the stretch behind it; the last block has a kind of its
      // own.
      const auto rest = static_cast<uint64_t>(a == b ? (b == length - 1 ? 1 : 0)
                                                     : rows.row_of[triangle(a + 1, b)]);
      const uint64_t key = static_cast<uint64_t>(kinds[a]) << 32 | rest;
      const auto [found, is_new] = known.emplace(key, static_cast<int32_t>(rows.solve.size()));
      rows.row_of[triangle(a, b)] = found->second;
      if (!is_new) continue;
      rows.solve.emplace_back(a, b);
      rows.transitions +=
          static_cast<double>(distance) + static_cast<double>(blocks[a].options.size());
    }
  }
  return rows;
}

}  // namespace

size_t ChainSolver::row_number(int32_t a, int32_t b) const {
  return static_cast<size_t>(row_of_[triangle(a, b)]);
}

size_t ChainSolver::row(int32_t a, int32_t b) const {
  return row_number(a, b) * (static_cast<size_t>(slots_) + 1);
}

double ChainSolver::least_work(const IndexVector<BlockOptions>& options) {
  const int64_t slot_bytes =
      slot_bytes_for(span_of(options).bytes, kMinSlots, static_cast<int32_t>(options.size()));
  return find_rows(in_slots(options, slot_bytes)).transitions * kMinSlots;
}

bool ChainSolver::is_coarse() const {
  int64_t largest = 0;
  for (const BlockOptions& block : options_) largest = std::max(largest, block.input_bytes);
  return slots_ > 0 && slot_bytes_ * kSlotsOfSet > largest;
}

ChainSolver::ChainSolver(const IndexVector<Block>& blocks, const IndexVector<BlockOptions>& options,
                         double share)
    : blocks_(blocks), options_(options), length_(static_cast<int32_t>(blocks.size())) {
  for (const BlockOptions& block : options_) {
    if (block.options.empty()) return;
  }
  const TableSpan span = span_of(options_);
  const int64_t bytes = std::max<int64_t>(1, std::llround(share * static_cast<double>(span.bytes)));
  TableRows rows;
  const auto choose = [&](int64_t slots, int64_t slot_bytes) {
    slots_ = static_cast<int32_t>(slots);
    slot_bytes_ = slot_bytes;
    in_slots_ = in_slots(options_, slot_bytes);
    rows = find_rows(in_slots_);
  };
  const auto is_affordable = [&](double most) { return rows.transitions * slots_ <= most; };
  const int64_t most_cells = std::clamp(span.bytes / kBytesOfCell, kMinCells, kMaxCells);
  const auto most_slots = [&](int64_t cells) {
    return cells / static_cast<int64_t>(rows.solve.size());
  };
  const int64_t exact_slots = span.divisor > 0 ? bytes / span.divisor + 1 : 1;
  if (exact_slots <= kMaxExactSlots) choose(exact_slots, std::max<int64_t>(1, span.divisor));
  if (exact_slots > kMaxExactSlots || !is_affordable(kMaxExactWork) ||
      slots_ > most_slots(std::max(most_cells, kMaxExactCells))) {
    // As fine as the work allows; coarser slots make more blocks alike, never fewer.
    const auto choose_rounded = [&](int32_t slots) {
      choose(slots, slot_bytes_for(bytes, slots, length_));
    };
    choose_rounded(kMaxSlots);
    if (!is_affordable(kWork) || slots_ > most_slots(most_cells)) {
      const auto most =
          std::min(most_slots(most_cells), static_cast<int64_t>(kWork / rows.transitions));
      choose_rounded(std::max(kMinSlots, static_cast<int32_t>(most)));
    }
    if (!is_affordable(kMaxTableWork)) {
      level_entries(in_slots_);
      rows = find_rows(in_slots_);
    }
    if (!is_affordable(kMaxTableWork)) {
      slots_ = 0;
      return;
    }
  }
  work_ = rows.transitions * slots_;
  row_of_ = std::move(rows.row_of);
  in_slots_.emplace_back();  // behind the last block
  const size_t cells = rows.solve.size() * (static_cast<size_t>(slots_) + 1);
  held_seconds_.assign(cells, kInfinite);
  free_seconds_.assign(cells, kInfinite);
  held_choice_.assign(cells, 0);
  free_choice_.assign(cells, 0);
  choice_.assign(static_cast<size_t>(slots_) + 1, 0);
  held_reach_.resize(rows.solve.size());
  free_reach_.resize(rows.solve.size());
  for (const auto& [a, b] : rows.solve) solve_row(a, b);
}

void ChainSolver::solve_row(int32_t a, int32_t b) {
  stop_point();
  float* const held = &held_seconds_[row(a, b)];
  float* const free = &free_seconds_[row(a, b)];
  int16_t* const free_choice = &free_choice_[row(a, b)];
  int32_t* const choice = choice_.data();
  // While blocks run forward again, what the backward part has made so far is there too.
  const int32_t beside = b == length_ - 1 ? 0 : in_slots_[b].entry;
  const SlotBlock& block = in_slots_[a];
  const int32_t input = block.input;
  const int32_t output = in_slots_[a + 1].input;
  for (size_t k = 0; k < block.options.size(); ++k) {
    const SlotBlock::Option& option = block.options[k];
    const int32_t kept = option.inner + (option.saves_output ? output : 0);
    // What goes past the block is held already.
    const int32_t kept_beside = kept - (option.saves_output ? std::min(block.past, output) : 0);
    const float* rest = nullptr;
    if (a < b)
      rest = option.saves_output ? &held_seconds_[row(a + 1, b)] : &free_seconds_[row(a + 1, b)];
    const auto time_at = [&](int32_t left) {
      return option.seconds + (rest == nullptr ? 0.0f : rest[left]);
    };
    const int32_t forward = option.forward_peak + beside;
    for (int32_t m = std::max({forward - input, option.backward_peak, kept_beside}); m <= slots_;
         ++m) {
      const float time = time_at(m - kept_beside);
      if (time < held[m]) {
        held[m] = time;
        choice[m] = static_cast<int32_t>(k);
      }
    }
    if (option.saves_input) continue;
    for (int32_t m = std::max({forward, option.backward_peak, kept}); m <= slots_; ++m) {
      const float time = time_at(m - kept);
      if (time < free[m]) {
        free[m] = time;
        free_choice[m] = static_cast<int16_t>(k);
      }
    }
  }
  float advance = 0;
  int32_t advance_need = 0;
  const bool may_repeat = !block.runs_once;
  for (int32_t j = a + 1; may_repeat && j <= b; ++j) {
    const SlotBlock& previous = in_slots_[j - 1];
    advance += previous.seconds;
    advance_need =
        std::max(advance_need, previous.advance_peak - (j - 1 == a ? input : 0) + beside);
    // Seconds never rise with m: only between what the two need and where the row is already as
    // fast as they can be is there something to gain.
    const Reach& right = free_reach_[row_number(j, b)];
    const Reach& left = held_reach_[row_number(a, j - 1)];
    const int32_t begin = std::max({0, advance_need, right.first, left.first});
    const float best = advance + right.least + left.least;
    if (begin > slots_ || held[begin] <= best) continue;
    const auto end = static_cast<int32_t>(
        std::partition_point(held + begin, held + slots_ + 1, [&](float t) { return t > best; }) -
        held);
    take_better(advance, &free_seconds_[row(j, b)], &held_seconds_[row(a, j - 1)], a - j, begin,
                end, held, choice);
  }
  int16_t* const held_choice = &held_choice_[row(a, b)];
  for (int32_t m = 0; m <= slots_; ++m) held_choice[m] = static_cast<int16_t>(choice[m]);
  for (int32_t m = input; m <= slots_; ++m) {
    if (held[m - input] >= free[m]) continue;
    free[m] = held[m - input];
    free_choice[m] = kHold;
  }
  const auto reach_of = [&](const float* seconds) {
    const float* const first =
        std::find_if(seconds, seconds + slots_ + 1, [](float t) { return t < kInfinite; });
    return Reach{static_cast<int32_t>(first - seconds), seconds[slots_]};
  };
  held_reach_[row_number(a, b)] = reach_of(held);
  free_reach_[row_number(a, b)] = reach_of(free);
}

int64_t ChainSolver::bytes() const {
  return static_cast<int64_t>((held_seconds_.size() + free_seconds_.size()) * sizeof(float) +
                              (held_choice_.size() + free_choice_.size()) * sizeof(int16_t));
}

double ChainSolver::seconds(int32_t budget_slots) const {
  if (slots_ == 0 || budget_slots < 0 || budget_slots > slots_) return kInfinite;
  return free_seconds_[row(0, length_ - 1) + static_cast<size_t>(budget_slots)];
}

std::vector<int32_t> ChainSolver::distinct_budgets() const {
  std::vector<int32_t> budgets;
  float before = kInfinite;
  for (int32_t m = 0; slots_ > 0 && m <= slots_; ++m) {
    const float time = free_seconds_[row(0, length_ - 1) + static_cast<size_t>(m)];
    if (time < before) budgets.push_back(m);
    before = std::min(before, time);
  }
  return budgets;
}

void ChainSolver::emit_kept(int32_t a, int32_t b, int32_t m, size_t k, bool is_input_held,
                            std::vector<ChainAction>& out) const {
  const auto block = static_cast<size_t>(a);
  const SlotBlock::Option& option = in_slots_[block].options[k];
  out.push_back({ChainAction::Kind::forward, a, options_[block].options[k].saved, a < b});
  if (a < b && option.saves_output) {
    const int32_t output = in_slots_[block + 1].input;
    const int32_t held = is_input_held ? std::min(in_slots_[block].past, output) : 0;
    emit_held(a + 1, b, m - option.inner - output + held, out);
  } else if (a < b) {
    emit_free(a + 1, b, m - option.inner, out);
  }
  out.push_back({ChainAction::Kind::backward, a, {}, false});
}

void ChainSolver::emit_free(int32_t a, int32_t b, int32_t m, std::vector<ChainAction>& out) const {
  const int16_t choice = free_choice_[row(a, b) + static_cast<size_t>(m)];
  if (choice == kHold) {
    emit_held(a, b, m - in_slots_[a].input, out);
  } else {
    emit_kept(a, b, m, static_cast<size_t>(choice), false, out);
  }
}

void ChainSolver::emit_held(int32_t a, int32_t b, int32_t m, std::vector<ChainAction>& out) const {
  const int16_t choice = held_choice_[row(a, b) + static_cast<size_t>(m)];
  if (choice >= 0) {
    emit_kept(a, b, m, static_cast<size_t>(choice), true, out);
    return;
  }
  const int32_t j = a - choice;
  for (int32_t i = a; i < j; ++i) {
    ChainAction advance{ChainAction::Kind::forward, i, {}, true};
    if (i == a) advance.hold = blocks_[a].input;
    out.push_back(std::move(advance));
  }
  emit_free(j, b, m, out);
  emit_held(a, j - 1, m, out);
}

std::vector<ChainAction> ChainSolver::actions(int32_t budget_slots) const {
  std::vector<ChainAction> result;
  emit_free(0, length_ - 1, budget_slots, result);
  return result;
}

}  // namespace snug::plan
