// SPDX-License-Identifier: Apache-2.0
// Adjacent steps of a schedule that are one row program (base/row_form.h): which of what they make
// is never in memory, whose place the rest takes, its scratch and what it saves.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/liveness_table.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Which instances of storages are read behind which step.
class LastReads {
 public:
  LastReads(const LivenessTable& table, IndexSpan<const OpId> schedule);
  /// The last step that reads what the step makes as its output of that number, residents not
  /// counted; the end of the schedule where it is kept, the step itself where nobody reads it.
  [[nodiscard]] int32_t of(int32_t step, size_t output) const {
    return last_[static_cast<size_t>(first_[step]) + output];
  }

 private:
  IndexVector<int32_t> first_;  // by step, in last_
  IndexVector<int32_t> last_;
};

/// Why a step is not one of those before it.
enum class RowJoin : uint8_t {
  joins,
  is_not_by_rows,
  has_head,        // a kernel that is not by rows runs first in it
  shares_nothing,  // no operand by rows
  is_cut_apart,    // other rows, or one reads as a whole what the other has by rows
};

struct RowRun {
  int32_t first = 0;
  std::vector<bool> made_inside = {};      // by output of all steps: never in memory
  std::vector<int32_t> first_output = {};  // by step, in made_inside
  std::vector<double> saved_seconds = {};  // by step
  std::vector<int64_t> saved_bytes = {};   // likewise: of operands, not read or written
  /// Outputs, and what was there before in whose place they are.
  std::vector<std::pair<StorageId, StorageId>> places = {};
  int64_t scratch_bytes = 0;
  [[nodiscard]] int32_t last() const {
    return first + static_cast<int32_t>(saved_seconds.size()) - 1;
  }
  /// A step of the run, and the number of an output of its op.
  [[nodiscard]] bool is_inside(int32_t step, size_t output) const {
    const auto begin = static_cast<size_t>(first_output[static_cast<size_t>(step - first)]);
    return made_inside[begin + output];
  }
};

/// Adds steps one after the other.
class RowRunBuilder {
 public:
  RowRunBuilder(const Problem& problem, IndexSpan<const OpId> schedule, const LastReads& reads,
                int32_t first = 0)
      : problem_(problem), schedule_(schedule), reads_(reads), first_(first) {}
  /// Forgets all steps; the next is that one.
  void begin_at(int32_t first);
  /// Whether the next step joins: it is computed by rows as those before it are, and shares
  /// operands with them.
  bool add() { return join() == RowJoin::joins; }
  /// The same, and why not.
  RowJoin join();
  [[nodiscard]] RowRun run() const;

 private:
  [[nodiscard]] const Op& op_at(int32_t step) const {
    const OpId id = schedule_[step];
    return problem_.ops[id];
  }

  const Problem& problem_;
  IndexSpan<const OpId> schedule_;
  const LastReads& reads_;
  int32_t first_;
  int32_t steps_ = 0;
  RowProgram program_;
  std::vector<StorageId> made_;
  // The op that is to join; members, since most of the time went into making them anew.
  std::vector<int64_t> input_keys_;
  std::vector<int64_t> output_keys_;
  std::vector<std::pair<int64_t, int64_t>> reused_keys_;
};

/// Whether every step that is marked joins those before it.
[[nodiscard]] bool are_row_runs(const LivenessTable& table, IndexSpan<const OpId> schedule,
                                const FusedSteps& fused);

/// All of a schedule, in its order. A step that is marked and does not join is a bug of the caller.
[[nodiscard]] std::vector<RowRun> row_runs(const LivenessTable& table,
                                           IndexSpan<const OpId> schedule, const FusedSteps& fused);

}  // namespace snug::plan
