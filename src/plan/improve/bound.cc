// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/improve/min_cut.h"
#include "plan/problem/index.h"

namespace snug::plan {
namespace {

constexpr int32_t kMaxCuts = 40;        // evaluations of the dual function
constexpr size_t kMostCutOps = 60'000;  // a flow's paths are as long, and the search is recursive

int64_t operand_bytes(const Problem& problem, const Op& op) {
  int64_t bytes = op.scratch_bytes;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const StorageId id : *operands) {
      const Storage& storage = problem.storages[id];
      if (!storage.resident) bytes += storage.bytes;
    }
  }
  for (const auto& [output, input] : op.reuses) {
    bytes -= std::min(problem.storages[output].bytes, problem.storages[input].bytes);
  }
  return bytes;
}

// The relaxation at one instant: the first run of an op, `moment`. All its ancestors have run; all
// its descendants are still to come. What they read of the ancestors' storages is either live now,
// in what the moment's own operands leave of the budget, or made again later at the price of its
// op, whose inputs are then wanted in the same way. Choosing what to keep under a price per byte is
// a smallest cut; the best price gives the bound (Lagrangian duality: any price is valid).
class MomentBound {
 public:
  /// `kept_seconds_per_byte`: what a byte that is live at the instant costs; 0 at all but the loss.
  MomentBound(const ProblemIndex& index, OpId moment, double kept_seconds_per_byte)
      : index_(index), network_(index.storage_count() + index.op_count() + 2) {
    const auto ops = static_cast<size_t>(index.op_count());
    IndexVector<bool> is_ancestor(ops, false);
    IndexVector<bool> is_descendant(ops, false);
    is_ancestor[moment] = is_descendant[moment] = true;
    for (OpId id = moment; id >= 0; --id) {
      if (!is_ancestor[id]) continue;
      for (const StorageId input : index.op(id).inputs) {
        const OpId producer = index.producer[input];
        if (producer >= 0) is_ancestor[producer] = true;
      }
    }
    for (OpId id = moment + 1; id < index.op_count(); ++id) {
      for (const StorageId input : index.op(id).inputs) {
        const OpId producer = index.producer[input];
        if (producer >= 0 && is_descendant[producer]) is_descendant[id] = true;
      }
    }
    is_ancestor[moment] = false;

    const auto is_made_before = [&](StorageId id) {
      const OpId producer = index.producer[id];
      return producer >= 0 && is_ancestor[producer];
    };
    IndexVector<bool> is_wanted(index.storage_count(), false);
    for (OpId id = moment + 1; id < index.op_count(); ++id) {
      if (!is_descendant[id]) continue;
      for (const StorageId input : index.op(id).inputs) is_wanted[input] = true;
    }
    for (const StorageId kept : index.problem.keep) is_wanted[kept] = true;
    IndexVector<bool> is_operand(is_wanted.size(), false);
    for (const StorageId input : index.op(moment).inputs) is_operand[input] = true;

    for (StorageId id = 0; id < index.storage_count(); ++id) {
      if (!is_made_before(id)) continue;
      if (is_wanted[id]) network_.add_arc(source(), id, MinCut::kInfinite);
      const bool is_free = is_operand[id];
      const auto bytes = static_cast<double>(index.arena_bytes(id));
      const double seconds = kept_seconds_per_byte * bytes;
      const OpId producer = index.producer[id];
      const int32_t arc = network_.add_arc(id, node_of(producer), seconds);
      if (!is_free) kept_arcs_.push_back({id, arc, bytes, seconds});
    }
    for (OpId id = 0; id < moment; ++id) {
      if (!is_ancestor[id]) continue;
      const bool is_fixed = index.runs_once[id];
      network_.add_arc(node_of(id), sink(), is_fixed ? MinCut::kInfinite : index.op(id).seconds);
      for (const StorageId input : index.op(id).inputs) {
        if (is_made_before(input)) network_.add_arc(node_of(id), input, MinCut::kInfinite);
      }
    }
    own_bytes_ = operand_bytes(index.problem, index.op(moment));
    for (const Op& op : index.problem.ops) total_seconds_ += op.seconds;
  }

  /// Seconds beyond one run of every op; what is kept counts where it has a cost.
  [[nodiscard]] double extra_seconds(int64_t budget_bytes) {
    const auto room = static_cast<double>(budget_bytes - own_bytes_);
    if (room < 0) return std::numeric_limits<double>::infinity();
    // Two lines of the concave dual: next to nothing is dropped at price 0, everything droppable at
    // a high price.
    Point low = evaluate(0, room);
    if (low.seconds <= 0) {  // then nothing is dropped, though the cut may lie elsewhere
      low = {};
      for (const KeptArc& each : kept_arcs_) low.kept += each.bytes;
    }
    if (low.kept <= room) return std::max(0.0, low.value * (1 - 1e-9));
    // Above this price even the smallest storage (of one alignment unit) is not worth keeping.
    Point high = evaluate(total_seconds_ + 1e-9, room);
    double best = std::max({0.0, low.value, high.value});
    if (high.kept >= room) return best;
    for (int32_t i = 0; i < kMaxCuts; ++i) {
      const double price = (high.seconds - low.seconds) / (low.kept - high.kept);
      if (!(price > 0)) break;
      const Point middle = evaluate(price, room);
      best = std::max(best, middle.value);
      const double line = low.seconds + price * (low.kept - room);
      if (middle.value >= line * (1 - 1e-9) - 1e-15) break;
      (middle.kept > room ? low : high) = middle;
    }
    // Rounding of the flow must never make the bound larger than it is.
    return std::max(0.0, best * (1 - 1e-9));
  }

 private:
  // A storage that may be kept, at a cost in bytes and seconds.
  struct KeptArc {
    StorageId id;
    int32_t arc;
    double bytes;
    double seconds;
  };
  struct Point {
    double value = 0;    // of the dual function: a valid bound
    double kept = 0;     // bytes kept by the cut
    double seconds = 0;  // run again by the cut
  };

  Point evaluate(double price, double room) {
    for (const KeptArc& each : kept_arcs_)
      network_.set_capacity(each.arc, each.seconds + price * each.bytes);
    const double cut = network_.solve(source(), sink(), total_seconds_ * 1e-13);
    Point point;
    point.value = cut - price * room;
    for (const KeptArc& each : kept_arcs_) {
      const OpId producer = index_.producer[each.id];
      const bool is_kept =
          network_.is_on_source_side(each.id) && !network_.is_on_source_side(node_of(producer));
      if (is_kept) point.kept += each.bytes;
    }
    point.seconds = cut - price * point.kept;
    return point;
  }

  [[nodiscard]] int32_t node_of(OpId op) const { return index_.storage_count() + op; }
  [[nodiscard]] int32_t source() const { return index_.storage_count() + index_.op_count(); }
  [[nodiscard]] int32_t sink() const { return source() + 1; }

  const ProblemIndex& index_;
  MinCut network_;
  std::vector<KeptArc> kept_arcs_;
  int64_t own_bytes_ = 0;
  double total_seconds_ = 0;
};

// The first backward op that depends on the forward part. Ops before it (constants) say nothing
// about what is kept.
OpId loss_instant(const ProblemIndex& index) {
  IndexVector<bool> depends(index.storage_count(), false);
  for (OpId id = 0; id < index.op_count(); ++id) {
    const Op& op = index.op(id);
    const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                   [&](StorageId input) { return depends[input]; });
    if (id >= index.backward_begin && reads) return id;
    for (const StorageId output : op.outputs) {
      depends[output] = id < index.backward_begin || reads;
    }
  }
  return index.backward_begin;
}

}  // namespace

WorkingSetBound working_set_bound(const Problem& problem) {
  WorkingSetBound bound;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const int64_t bytes = operand_bytes(problem, problem.ops[i]);
    if (bound.op < 0 || bytes > bound.bytes) bound = {bytes, static_cast<OpId>(i)};
  }
  return bound;
}

WorkingSetBound working_set_bound_beyond(const Problem& problem,
                                         std::span<const StorageId> together) {
  IndexVector<bool> is_together(problem.storages.size(), false);
  int64_t shared = 0;
  for (const StorageId id : together) {
    is_together[id] = true;
    shared += problem.storages[id].bytes;
  }
  WorkingSetBound bound = working_set_bound(problem);
  bound.bytes = std::max<int64_t>(0, bound.bytes - shared);
  // Whichever op makes the last of them has all of them beside its other operands.
  WorkingSetBound last;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const Op& op = problem.ops[i];
    int64_t own = 0;
    for (const StorageId output : op.outputs) {
      if (is_together[output]) own += problem.storages[output].bytes;
    }
    if (own == 0) continue;
    const int64_t beside = operand_bytes(problem, op) - own;
    if (last.op < 0 || beside < last.bytes) last = {beside, static_cast<OpId>(i)};
  }
  return last.bytes > bound.bytes ? last : bound;
}

WorkingSetBound pinned_set_bound(const Problem& problem) {
  const ProblemIndex index(problem);
  const auto ops = static_cast<size_t>(index.op_count());
  const size_t words = ops / 64 + 1;
  const auto bit = [&](const IndexVector<uint64_t>& row, OpId id) {
    return (row[id / 64] >> (static_cast<size_t>(id) % 64) & 1) != 0;
  };
  // Ancestors of every op, as bits.
  IndexVector<IndexVector<uint64_t>> ancestors(ops, IndexVector<uint64_t>(words, 0));
  for (OpId id = 0; id < index.op_count(); ++id) {
    stop_point();
    auto& row = ancestors[id];
    for (const StorageId input : index.op(id).inputs) {
      const OpId producer = index.producer[input];
      if (producer < 0) continue;
      row[producer / 64] |= uint64_t{1} << (static_cast<size_t>(producer) % 64);
      const auto& more = ancestors[producer];
      for (size_t word = 0; word < words; ++word) row[word] |= more[word];
    }
  }
  WorkingSetBound bound;
  for (OpId id = 0; id < index.op_count(); ++id) {
    stop_point();
    const Op& op = index.op(id);
    int64_t bytes = operand_bytes(problem, op);
    for (StorageId storage = 0; storage < index.storage_count(); ++storage) {
      const OpId producer = index.producer[storage];
      if (producer < 0 || !index.runs_once[producer] || index.arena_bytes(storage) == 0 ||
          !bit(ancestors[id], producer))
        continue;
      const auto& readers = index.consumers[storage];
      if (std::find(readers.begin(), readers.end(), id) != readers.end()) continue;
      const bool is_read_later =
          index.in_keep[storage] || std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
            return bit(ancestors[reader], id);
          });
      if (is_read_later) bytes += index.arena_bytes(storage);
    }
    if (bound.op < 0 || bytes > bound.bytes) bound = {bytes, id};
  }
  return bound;
}

double lower_bound_seconds(const Problem& problem, int64_t arena_budget_bytes) {
  double seconds = 0;
  for (const Op& op : problem.ops) seconds += op.seconds;
  if (problem.ops.size() > kMostCutOps) return seconds;
  const ProblemIndex index(problem);
  const OpId begin = loss_instant(index);
  const OpId tail = index.op_count() - begin;
  double extra = 0;
  // The loss instant, and a few moments of the backward part.
  OpId before = -1;
  for (const OpId eighths : {0, 1, 2, 4}) {
    const OpId moment = begin + tail * eighths / 8;
    if (tail <= 0 || moment == before) continue;
    before = moment;
    const double kept_seconds_per_byte = moment == begin ? problem.kept_seconds_per_byte : 0;
    extra = std::max(
        extra, MomentBound(index, moment, kept_seconds_per_byte).extra_seconds(arena_budget_bytes));
  }
  return seconds + extra;
}

}  // namespace snug::plan
