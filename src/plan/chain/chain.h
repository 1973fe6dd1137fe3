// SPDX-License-Identifier: Apache-2.0
// Dynamic programming over a chain of blocks with options, with recomputation nested as deep as the
// budget asks (Rotor's recurrence, stated here in our terms):
//
//   held(a, b, m)  = fewest seconds of forward runs to go from "input of block a is there" to
//                    "blocks b .. a have run backward" within m bytes beside that input, which
//                    stays for as long as it is needed
//   free(a, b, m)  = the same within m bytes in all; the input need not stay
//
//     a == b   forward then backward of one block, with the best option that fits
//     keep     run a with option k, solve (a+1, b) in what is left, run a backward; the block's
//              output is held, for its own backward or for block a+1's, or free
//     check    held only: run a .. j-1 forward keeping nothing, solve (j, b), then held(a, j-1, m)
//
// The set between two blocks is counted once, however many of them use it; a storage that goes past
// a block whose input is held is not counted again when its output is.
//
// Bytes are counted in slots: exactly where all sizes have a large common divisor, otherwise
// rounded up. So a nominal budget is only a way to name a schedule: what counts is the flattened
// schedule, judged by exact liveness.
//
// Stretches of the chain whose blocks are the same in slots share one row of the table, so a chain
// of equal blocks costs O(blocks²) rather than O(blocks³).
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/index_vector.h"
#include "plan/chain/block_options.h"

namespace snug::plan {

/// What to do next with a block. `hold` replaces what was held for the block before.
struct ChainAction {
  enum class Kind : uint8_t { forward, backward };
  Kind kind = Kind::forward;
  int32_t block = 0;
  std::vector<StorageId> hold;  // forward: held until the block's backward or its next forward
  bool needs_output = true;     // forward: false where the block's backward follows at once
  bool operator==(const ChainAction&) const = default;
};

/// A block's sizes in slots.
struct SlotBlock {
  struct Option {
    int32_t inner = 0;
    int32_t forward_peak = 0;   // input included
    int32_t backward_peak = 0;  // input excluded
    bool saves_input = false;
    bool saves_output = false;
    float seconds = 0;
    // clang-tidy 14 takes the 0 of a generated comparison for a null pointer.
    auto operator<=>(const Option&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  bool runs_once = false;
  float seconds = 0;  // forward
  int32_t input = 0;
  int32_t past = 0;  // of the input set, what is in the output set too
  int32_t entry = 0;
  int32_t advance_peak = 0;
  std::vector<Option> options;
  auto operator<=>(const SlotBlock&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Transitions × slots that a table may take: about half a second.
inline constexpr double kMaxTableWork = 5e8;

/// The solved table: one table answers every nominal budget up to its largest.
class ChainSolver {
 public:
  /// The largest nominal budget is `share` of what keeping everything takes. Without a table, and
  /// so without budgets, where that would take more than kMaxTableWork.
  ChainSolver(const IndexVector<Block>& blocks, const IndexVector<BlockOptions>& options,
              double share = 1);

  /// Nominal budgets (in slots) at which the best time changes, smallest first. Empty where nothing
  /// is feasible.
  [[nodiscard]] std::vector<int32_t> distinct_budgets() const;
  [[nodiscard]] std::vector<ChainAction> actions(int32_t budget_slots) const;
  /// Forward seconds of the whole chain at a nominal budget, recomputation included; infinite where
  /// infeasible.
  [[nodiscard]] double seconds(int32_t budget_slots) const;

  /// Whether a slot is so large that the sets between blocks are mostly rounding: then a smaller
  /// share of the budgets wants a table of its own.
  [[nodiscard]] bool is_coarse() const;

  /// Bytes that this table takes.
  [[nodiscard]] int64_t bytes() const;
  /// Transitions times slots of this table.
  [[nodiscard]] double work() const { return work_; }

  /// Transitions times slots that the coarsest table takes: what a chain of all-different blocks
  /// makes too long.
  [[nodiscard]] static double least_work(const IndexVector<BlockOptions>& options);

 private:
  [[nodiscard]] size_t row_number(int32_t a, int32_t b) const;
  [[nodiscard]] size_t row(int32_t a, int32_t b) const;  // where it begins in the tables
  void solve_row(int32_t a, int32_t b);
  void emit_held(int32_t a, int32_t b, int32_t m, std::vector<ChainAction>& out) const;
  void emit_free(int32_t a, int32_t b, int32_t m, std::vector<ChainAction>& out) const;
  void emit_kept(int32_t a, int32_t b, int32_t m, size_t k, bool is_input_held,
                 std::vector<ChainAction>& out) const;

  const IndexVector<Block>& blocks_;
  const IndexVector<BlockOptions>& options_;
  int32_t length_ = 0;
  int32_t slots_ = 0;
  IndexVector<SlotBlock> in_slots_;  // one more than blocks: nothing follows the last
  int64_t slot_bytes_ = 1;
  double work_ = 0;
  std::vector<int32_t> row_of_;  // [b (b + 1) / 2 + a]: the row of the stretch a .. b
  // [row][m]; choices: option k >= 0, or -(j - a) for a checkpoint at j, or kHold in free rows
  std::vector<float> held_seconds_;
  IndexVector<float> free_seconds_;
  IndexVector<int16_t> held_choice_;
  IndexVector<int16_t> free_choice_;
  struct Reach {
    int32_t first = 0;  // the smallest budget that is enough
    float least = 0;    // seconds at the largest
  };
  std::vector<Reach> held_reach_;  // per row
  std::vector<Reach> free_reach_;
  std::vector<int32_t> choice_;  // of the row being solved; as wide as its seconds
};

}  // namespace snug::plan
