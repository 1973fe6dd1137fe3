// SPDX-License-Identifier: Apache-2.0
// The planner's vocabulary: what it is given (Problem) and what it returns (Plan). Plain data in,
// plain data out; it knows neither tensors nor kernels. All bytes are already rounded up to the
// backend's alignment.
//
// Times are steps of the schedule: step i runs one op. A storage instance lives from the step that
// makes it to its last use before it is made again; the bytes in use at a step are all live
// instances, the op's outputs and its scratch.
//
// Every storage in the arena has exactly one op that makes it. Resident storages have versions: an
// op that reads one must see the same version in every schedule, recomputed or not, so it runs
// before (or after) the same writers.
//
// A joint graph of a framework may have more: views, ordered ops, a boundary between its two parts.
// plain_problem.h makes a problem without them of it; everything else here works on such only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/phase.h"
#include "base/row_form.h"
#include "base/shared_text.h"

namespace snug::plan {

using StorageId = Id<struct StorageTag>;
using OpId = Id<struct OpTag>;
inline constexpr int64_t kResidentOffset = -1;  // the storage is not in the arena

struct Storage {
  std::string name;
  int64_t bytes = 0;
  bool resident = false;   // lives outside the arena for the whole run: weights, states, fed inputs
  bool is_marked = false;  // kept by the strategy "marked"
  /// A view: a part of that storage (which is no view itself), without bytes of its own. Who reads
  /// it needs that storage in memory and the view made of this very instance of it.
  StorageId view_of = kNone;
  bool operator==(const Storage&) const = default;
};

/// Where all runs of an op lie, as its graph says it.
enum class GraphPart : uint8_t { any, forward, backward };

/// How ops run as one kernel where their steps are adjacent ("fused"): what they read is in memory
/// together until the last of them. They make nothing in the arena.
struct Fusion {
  uint64_t kind = 0;          // equal for ops of one kernel; 0: the op is never fused
  int32_t most = 1;           // in one kernel
  double seconds = 0;         // of each behind the first
  int64_t scratch_bytes = 0;  // of the kernel
  bool operator==(const Fusion&) const = default;
};

/// How an op is computed by rows together with ops of adjacent steps (base/row_form.h). Storages
/// are the operands, in the order of Op::inputs and Op::outputs.
struct RowwiseOp {
  RowwiseForm form = {};
  /// Another kernel runs before its rows and has made its outputs by then; so it is the first of a
  /// program, and what it makes is in memory.
  bool has_head = false;
  double saved_seconds = 0;  // of the op's, where none of its operands by rows is in memory
  /// What the op takes where each of its nodes runs by itself, where that is more than Op::seconds.
  /// Schedules are searched with it, so that they are the same at every level of fusion.
  double apart_seconds = 0;
  bool operator==(const RowwiseOp&) const = default;
};

/// One for all ops that are computed alike: a thousand steps of a recurrent net have few.
class SharedRowwiseOp {
 public:
  SharedRowwiseOp() = default;
  SharedRowwiseOp(RowwiseOp op)  // NOLINT: used like the value
      : op_(op.form.is_given() ? std::make_shared<RowwiseOp>(std::move(op)) : nullptr) {}
  const RowwiseOp& operator*() const {
    static const RowwiseOp none;
    return op_ ? *op_ : none;
  }
  const RowwiseOp* operator->() const { return &**this; }
  /// A copy of this op's own, to be changed.
  RowwiseOp& own() {
    op_ = std::make_shared<RowwiseOp>(**this);
    return *op_;
  }
  friend bool operator==(const SharedRowwiseOp& a, const SharedRowwiseOp& b) {
    return a.op_ == b.op_ || *a == *b;
  }

 private:
  std::shared_ptr<RowwiseOp> op_;  // null: not computed by rows
};

struct Op {
  std::string name;
  SharedText scope;  // "encoder.layer.3"; for reports
  Phase phase = Phase::forward;
  double seconds = 0;
  std::vector<StorageId> inputs;  // without repeats
  std::vector<StorageId>
      outputs;  // a resident output is written in place (an update, an accumulation)
  int64_t scratch_bytes = 0;
  bool may_recompute = true;  // false: runs exactly once; so does every op with a resident output
  uint64_t signature = 0;  // equal for ops of the same type, attributes and shapes (scope, random
                           // key and positions aside)
  bool is_expensive = false;  // the strategy "speed" keeps what it makes
  /// Output and input: the output may be written in the input's place, where the two count once
  /// (the larger); elsewhere they count both. The input is gone afterwards.
  std::vector<std::pair<StorageId, StorageId>> reuses = {};
  /// The parts that the strategy "marked" runs again for their backward part and that the op lies
  /// in, outermost first.
  std::vector<int32_t> parts = {};
  Fusion fusion = {};
  SharedRowwiseOp rowwise = {};
  bool is_ordered = false;  // runs once, and in the listed order among all such ops
  GraphPart part = GraphPart::any;
  OpId variant_of = kNone;  // in Problem::variants: the op
  bool operator==(const Op&) const = default;
};

/// Between the forward and the backward part, in front of the first listed op of phase backward or
/// update (joint.h), other code runs; each part has bytes of its own beside what is live in it.
struct GraphBoundary {
  std::vector<StorageId> forward_outputs;  // in memory at the boundary
  int64_t between_bytes = 0;               // beside them and what crosses
  int64_t forward_base_bytes = 0;
  int64_t backward_base_bytes = 0;
  bool operator==(const GraphBoundary&) const = default;
};

/// One training step (or evaluation, or update) as the planner sees it. `ops` is one valid order.
struct Problem {
  IdVector<StorageId, Storage> storages;
  IdVector<OpId, Op> ops;
  std::vector<StorageId> keep;  // live at the end; resident ones may be named and cost nothing
  int64_t alignment = 64;
  /// For each byte that lives across the loss: it is written to memory and read back from there,
  /// which costs the ops around it more than the same bytes in a cache.
  double kept_seconds_per_byte = 0;
  std::optional<GraphBoundary> boundary;
  /// Other ways to run ops (Op::variant_of): with other inputs and scratch, in no less time, and
  /// else as the op. A schedule names one by its id, which lies behind those of the ops; that is a
  /// run of the op.
  std::vector<Op> variants = {};
  bool operator==(const Problem&) const = default;

  [[nodiscard]] size_t run_count() const { return ops.size() + variants.size(); }
  /// By the id of an op or of a variant.
  [[nodiscard]] const Op& run(OpId id) const {
    return ops.has(id) ? ops[id] : variants[static_cast<size_t>(id.number()) - ops.size()];
  }
  [[nodiscard]] OpId op_of(OpId run) const {
    return ops.has(run) ? run : this->run(run).variant_of;
  }
  [[nodiscard]] IdRange<OpId> variant_ids() const { return {ops.end_id(), OpId(run_count())}; }
};

/// One storage instance, or the scratch of one run of an op: live on the steps [first, last], both
/// included.
struct LiveRange {
  StorageId storage;
  int32_t first = 0;
  int32_t last = 0;
  int64_t bytes = 0;
  OpId scratch_of = kNone;  // then it is no storage
  [[nodiscard]] bool is_scratch() const { return scratch_of != kNone; }
  bool operator==(const LiveRange&) const = default;
};

/// The storage is never in memory: only a piece of its rows, while its row program runs.
inline constexpr int64_t kInsideOffset = -2;

/// How a step runs in one kernel with the step before: as one of several sums (Op::fusion), or in a
/// row program (Op::rowwise).
enum class Fused : uint8_t { no, sums, rows };

/// One executed op with the arena offsets of everything it touches, in the order of Op::inputs and
/// Op::outputs.
struct Step {
  OpId op;
  std::vector<int64_t> input_offsets;
  std::vector<int64_t> output_offsets;
  int64_t scratch_offset = 0;
  Fused fused = Fused::no;   // then it has the scratch of the step before
  double saved_seconds = 0;  // of the op's, in a row program
  bool operator==(const Step&) const = default;
};

struct Plan {
  std::string strategy;  // "keep-all", "recompute-all", "sqrt", "every:2", "budget"
  IndexVector<Step> steps;
  std::vector<LiveRange> live_ranges;  // every instance, with its offset beside it
  IndexVector<int64_t> offsets;
  int64_t arena_bytes = 0;  // highest byte of any instance
  int64_t load_bytes = 0;   // largest sum of live bytes: no placement of this schedule is smaller
  int32_t peak_step = 0;    // the step where the load is reached
  double seconds = 0;
  bool operator==(const Plan&) const = default;
};

/// By step of a schedule: Step::fused. Empty: none is.
using FusedSteps = std::vector<Fused>;

/// No run of the op takes less, whatever kernel it is part of.
[[nodiscard]] inline double least_seconds(const Op& op) {
  const double by_rows = op.seconds - op.rowwise->saved_seconds;
  return op.fusion.kind == 0 ? by_rows : std::min(by_rows, op.fusion.seconds);
}
[[nodiscard]] inline double seconds_of(const Problem& problem, const Step& step) {
  const Op& op = problem.run(step.op);
  return step.fused == Fused::sums ? op.fusion.seconds : op.seconds - step.saved_seconds;
}

/// What no schedule of this problem can beat: the op whose own operands and scratch are the
/// largest.
/// What a bound of bytes counts: an op's operands; these and what cannot be made again and must lie
/// beside them; what is kept at the end beside the op that makes the last of it.
enum class BoundProof : uint8_t { op, pinned, kept };

struct WorkingSetBound {
  int64_t bytes = 0;
  OpId op;
  BoundProof proof = BoundProof::op;
};

}  // namespace snug::plan
