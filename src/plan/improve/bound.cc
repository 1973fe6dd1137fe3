// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/improve/min_cut.h"
#include "plan/improve/operand_bound.h"
#include "plan/improve/relaxed_variants.h"

namespace snug::plan {
namespace {

constexpr int32_t kMaxCuts = 40;        // evaluations of the dual function
constexpr size_t kMostCutOps = 60'000;  // a flow's paths are as long, and the search is recursive

}  // namespace

/// Which ops have run for sure before the first run of another: its ancestors, or, where first runs
/// follow the listed order, all before it.
enum class RunBefore : uint8_t { ancestors, listed };

// The relaxation at one instant: the first run of an op, `moment`. All its ancestors have run; all
// its descendants are still to come. What they read of the ancestors' storages is either live now,
// in what the moment's own operands leave of the budget, or made again later at the price of its
// op, whose inputs are then wanted in the same way. Choosing what to keep under a price per byte is
// a smallest cut; the best price gives the bound (Lagrangian duality: any price is valid).
class MomentBound {
 public:
  /// `kept_seconds_per_byte`: what a byte that is live at the instant costs; 0 at all but the loss.
  /// `runs`: of a problem with variants, whose relaxation the index is of.
  MomentBound(const ProblemIndex& index, OpId moment, double kept_seconds_per_byte,
              RunBefore before = RunBefore::ancestors, const RelaxedRuns* runs = nullptr)
      : index_(index), network_(index.storage_count() + index.op_count() + 2) {
    const auto sure_inputs = [&](OpId id) -> const std::vector<StorageId>& {
      return runs != nullptr ? runs->sure_inputs[id] : index.op(id).inputs;
    };
    IdVector<OpId, bool> is_ancestor(index.op_count(), before == RunBefore::listed);
    IdVector<OpId, bool> is_descendant(index.op_count(), before == RunBefore::listed);
    is_ancestor[moment] = is_descendant[moment] = true;
    for (const OpId id : IdRange(OpId(0), moment + 1).backwards()) {
      if (!is_ancestor[id]) continue;
      for (const StorageId input : sure_inputs(id)) {
        const OpId producer = index.producer[input];
        if (producer != kNone) is_ancestor[producer] = true;
      }
    }
    for (const OpId id : IdRange(moment + 1, index.end_op())) {
      is_ancestor[id] = false;
      for (const StorageId input : sure_inputs(id)) {
        const OpId producer = index.producer[input];
        if (producer != kNone && is_descendant[producer]) is_descendant[id] = true;
      }
    }
    is_ancestor[moment] = false;

    const auto is_made_before = [&](StorageId id) {
      const OpId producer = index.producer[id];
      return producer != kNone && is_ancestor[producer];
    };
    IdVector<StorageId, bool> is_wanted(index.storage_count(), false);
    for (const OpId id : IdRange(moment + 1, index.end_op())) {
      if (!is_descendant[id]) continue;
      for (const StorageId input : index.op(id).inputs) is_wanted[input] = true;
    }
    for (const StorageId kept : index.problem.keep) is_wanted[kept] = true;
    IdVector<StorageId, bool> is_operand(is_wanted.size(), false);
    const auto& operands = runs != nullptr ? runs->any_inputs[moment] : index.op(moment).inputs;
    for (const StorageId input : operands) is_operand[input] = true;
    const OperandBound in_memory(index.problem);

    for (const StorageId id : index.storage_ids()) {
      if (!is_made_before(id)) continue;
      if (is_wanted[id]) network_.add_arc(source(), node_of(id), MinCut::kInfinite);
      const bool is_inside = in_memory.may_be_inside(id, index.op(moment));
      const bool is_free = is_operand[id] || is_inside;
      const auto bytes = static_cast<double>(index.arena_bytes(id));
      const double seconds = is_inside ? 0 : kept_seconds_per_byte * bytes;
      const OpId producer = index.producer[id];
      const int32_t arc = network_.add_arc(node_of(id), node_of(producer), seconds);
      if (!is_free) kept_arcs_.push_back({id, arc, bytes, seconds});
    }
    for (const OpId id : IdRange(OpId(0), moment)) {
      if (!is_ancestor[id]) continue;
      const bool is_fixed = index.runs_once[id];
      const double again = runs != nullptr ? runs->again_seconds[id] : least_seconds(index.op(id));
      const int32_t arc =
          network_.add_arc(node_of(id), sink(), is_fixed ? MinCut::kInfinite : again);
      if (!is_fixed) again_arcs_.push_back(arc);
      for (const StorageId input : index.op(id).inputs) {
        if (is_made_before(input)) network_.add_arc(node_of(id), node_of(input), MinCut::kInfinite);
      }
    }
    own_bytes_ = runs != nullptr ? runs->operand_bytes[moment] : in_memory.bytes(index.op(moment));
    for (const Op& op : index.problem.ops) total_seconds_ += least_seconds(op);
  }

  /// Seconds beyond one run of every op; what is kept counts where it has a cost.
  [[nodiscard]] double extra_seconds(int64_t budget_bytes) {
    kept_.clear();
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

  /// No schedule has less in memory at the instant, whatever it runs again: what ops that run once
  /// made is there, or what was made of it. The last that is asked of it: prices are gone.
  [[nodiscard]] int64_t least_bytes() {
    for (const int32_t arc : again_arcs_) network_.set_capacity(arc, 0);
    for (const KeptArc& each : kept_arcs_) network_.set_capacity(each.arc, each.bytes);
    return own_bytes_ + static_cast<int64_t>(network_.solve(source(), sink(), 0.5));
  }

  /// The storages that are kept by each cut of the last bound, in the order of their making.
  [[nodiscard]] std::vector<std::vector<StorageId>> take_kept() { return std::move(kept_); }

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

  struct Cut {
    double seconds = 0;  // of the cut, with what it pays for bytes
    double kept = 0;
    std::vector<StorageId> kept_ids;
  };

  Point evaluate(double price, double room) {
    const Cut& cut = cut_at(price);
    kept_.push_back(cut.kept_ids);
    return {cut.seconds - price * room, cut.kept, cut.seconds - price * cut.kept};
  }

  const Cut& cut_at(double price) {
    const auto known = cuts_.find(price);
    if (known != cuts_.end()) return known->second;
    for (const KeptArc& each : kept_arcs_)
      network_.set_capacity(each.arc, each.seconds + price * each.bytes);
    Cut cut;
    cut.seconds = network_.solve(source(), sink(), total_seconds_ * 1e-13);
    for (const KeptArc& each : kept_arcs_) {
      const OpId producer = index_.producer[each.id];
      const bool is_kept = network_.is_on_source_side(node_of(each.id)) &&
                           !network_.is_on_source_side(node_of(producer));
      if (!is_kept) continue;
      cut.kept += each.bytes;
      cut.kept_ids.push_back(each.id);
    }
    return cuts_.emplace(price, std::move(cut)).first->second;
  }

  // The nodes of the network: one for each storage, and behind them one for each op.
  [[nodiscard]] int32_t node_of(StorageId id) const { return id.number(); }
  [[nodiscard]] int32_t node_of(OpId op) const { return index_.storage_count() + op.number(); }
  [[nodiscard]] int32_t source() const { return index_.storage_count() + index_.op_count(); }
  [[nodiscard]] int32_t sink() const { return source() + 1; }

  const ProblemIndex& index_;
  MinCut network_;
  std::vector<KeptArc> kept_arcs_;
  std::vector<int32_t> again_arcs_;           // of ops that may run again
  std::vector<std::vector<StorageId>> kept_;  // by cut
  std::map<double, Cut> cuts_;                // by price: budgets share those of a bracket
  int64_t own_bytes_ = 0;
  double total_seconds_ = 0;
};

// Ops before it (constants) say nothing about what is kept.
OpId loss_instant(const ProblemIndex& index) {
  IdVector<StorageId, bool> depends(index.storage_count(), false);
  for (const OpId id : index.op_ids()) {
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

WorkingSetBound working_set_bound(const Problem& problem) {
  const OperandBound in_memory(problem);
  IdVector<OpId, int64_t> least;  // of its ways
  for (const Op& op : problem.ops) least.push_back(in_memory.bytes(op));
  for (const Op& variant : problem.variants) {
    int64_t& bytes = least[variant.variant_of];
    bytes = std::min(bytes, in_memory.bytes(variant));
  }
  WorkingSetBound bound;
  for (const OpId id : problem.ops.ids()) {
    if (bound.op == kNone || least[id] > bound.bytes) bound = {least[id], id};
  }
  return bound;
}

// Bytes that lie beside storages which are all live at one moment: whichever op makes the last of
// them has all of them beside its other operands. No op where none of them is made.
static WorkingSetBound beside_last(const Problem& problem,
                                   const IdVector<StorageId, bool>& is_together) {
  const OperandBound in_memory(problem);
  WorkingSetBound last;
  for (const OpId id : problem.ops.ids()) {
    const Op& op = problem.ops[id];
    const bool makes_one = std::any_of(op.outputs.begin(), op.outputs.end(),
                                       [&](StorageId output) { return is_together[output]; });
    if (!makes_one) continue;
    int64_t own = 0;
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const StorageId operand : *operands)
        own += is_together[operand] ? problem.storages[operand].bytes : 0;
    }
    const int64_t beside = std::max<int64_t>(0, in_memory.bytes(op) - own);
    if (last.op == kNone || beside < last.bytes) last = {beside, id};
  }
  return last;
}

WorkingSetBound working_set_bound_beyond(const Problem& problem,
                                         std::span<const StorageId> together) {
  if (!problem.variants.empty())
    return working_set_bound_beyond(relaxed_variants(problem), together);
  IdVector<StorageId, bool> is_together(problem.storages.size(), false);
  int64_t shared = 0;
  for (const StorageId id : together) {
    is_together[id] = true;
    shared += problem.storages[id].bytes;
  }
  WorkingSetBound bound = working_set_bound(problem);
  bound.bytes = std::max<int64_t>(0, bound.bytes - shared);
  const WorkingSetBound last = beside_last(problem, is_together);
  return last.bytes > bound.bytes ? last : bound;
}

static WorkingSetBound kept_set_bound(const Problem& problem) {
  IdVector<StorageId, bool> is_kept(problem.storages.size(), false);
  int64_t kept_bytes = 0;
  for (const StorageId id : problem.keep) {
    if (is_kept[id] || problem.storages[id].resident) continue;
    is_kept[id] = true;
    kept_bytes += problem.storages[id].bytes;
  }
  const WorkingSetBound last = beside_last(problem, is_kept);
  if (last.op == kNone) return {};
  return {kept_bytes + last.bytes, last.op, BoundProof::kept};
}

// The moments at which most may lie beside what cannot be made again: where an op's operands are
// the largest, and at the loss.
static std::vector<OpId> full_moments(const ProblemIndex& index) {
  constexpr size_t kMost = 4;
  const OperandBound in_memory(index.problem);
  std::vector<std::pair<int64_t, OpId>> by_bytes;
  for (const OpId id : index.op_ids()) by_bytes.emplace_back(-in_memory.bytes(index.op(id)), id);
  const size_t count = std::min(kMost, by_bytes.size());
  std::partial_sort(by_bytes.begin(), by_bytes.begin() + static_cast<ptrdiff_t>(count),
                    by_bytes.end());
  std::vector<OpId> moments;
  for (size_t i = 0; i < count; ++i) moments.push_back(by_bytes[i].second);
  if (const OpId loss = loss_instant(index); loss != index.end_op()) moments.push_back(loss);
  return moments;
}

// What stands for an op that runs once may be made of its outputs: of a random draw the mask.
static WorkingSetBound made_of_pinned_bound(const ProblemIndex& index, RunBefore before) {
  WorkingSetBound bound;
  const IdRange forward(OpId(0), index.backward_begin);
  const bool has_pinned =
      std::any_of(forward.begin(), forward.end(), [&](OpId id) { return index.runs_once[id]; });
  if (!has_pinned || index.problem.ops.size() > kMostCutOps) return bound;
  for (const OpId moment : full_moments(index)) {
    stop_point();
    const int64_t bytes = MomentBound(index, moment, 0, before).least_bytes();
    if (bytes > bound.bytes) bound = {bytes, moment, BoundProof::pinned};
  }
  return bound;
}

WorkingSetBound pinned_set_bound(const Problem& problem, bool in_listed_order) {
  if (!problem.variants.empty()) {
    const WorkingSetBound relaxed = pinned_set_bound(relaxed_variants(problem), in_listed_order);
    const WorkingSetBound of_ops = working_set_bound(problem);
    return of_ops.bytes >= relaxed.bytes ? of_ops : relaxed;
  }
  const ProblemIndex index(problem);
  const int32_t ops = index.op_count();
  const auto words = static_cast<size_t>(ops / 64 + 1);
  using Bits = IndexVector<uint64_t>;
  const auto bit = [](OpId id) { return uint64_t{1} << (id.number() % 64); };
  const auto word_of = [](auto& row, OpId id) -> auto& { return row[id.number() / 64]; };
  const auto has = [&](const Bits& row, OpId id) { return (word_of(row, id) & bit(id)) != 0; };
  IdVector<OpId, Bits> ancestors(ops, Bits(words, 0));
  for (const OpId id : index.op_ids()) {
    stop_point();
    auto& row = ancestors[id];
    for (const StorageId input : index.op(id).inputs) {
      const OpId producer = index.producer[input];
      if (producer == kNone) continue;
      word_of(row, producer) |= bit(producer);
      const auto& more = ancestors[producer];
      for (size_t word = 0; word < words; ++word) row[word] |= more[word];
    }
  }
  const OperandBound in_memory(problem);
  WorkingSetBound bound;
  for (const OpId id : index.op_ids()) {
    stop_point();
    const Op& op = index.op(id);
    const int64_t own_bytes = in_memory.bytes(op);
    int64_t bytes = own_bytes;
    for (const StorageId storage : index.storage_ids()) {
      const OpId producer = index.producer[storage];
      if (producer == kNone || !index.runs_once[producer] || index.arena_bytes(storage) == 0 ||
          !has(ancestors[id], producer) || in_memory.may_be_inside(storage, op))
        continue;
      const auto& readers = index.consumers[storage];
      if (std::find(readers.begin(), readers.end(), id) != readers.end()) continue;
      const bool is_read_later =
          index.in_keep[storage] || std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
            return has(ancestors[reader], id);
          });
      if (is_read_later) bytes += index.arena_bytes(storage);
    }
    const bool has_pinned = bytes > own_bytes;
    if (bound.op == kNone || bytes > bound.bytes)
      bound = {bytes, id, has_pinned ? BoundProof::pinned : BoundProof::op};
  }
  const RunBefore before = in_listed_order ? RunBefore::listed : RunBefore::ancestors;
  for (const WorkingSetBound& other :
       {made_of_pinned_bound(index, before), kept_set_bound(problem)}) {
    if (other.bytes > bound.bytes) bound = other;
  }
  return bound;
}

std::vector<double> lower_bounds_seconds(const Problem& problem,
                                         std::span<const int64_t> arena_budgets_bytes) {
  std::optional<RelaxedRuns> runs;
  if (!problem.variants.empty()) runs = relaxed_runs(problem);
  double seconds = 0;
  for (const Op& op : problem.ops) seconds += least_seconds(op);
  std::vector<double> bounds(arena_budgets_bytes.size(), seconds);
  if (problem.ops.size() > kMostCutOps) return bounds;
  const ProblemIndex index(runs ? runs->problem : problem);
  const OpId begin = loss_instant(index);
  const int32_t tail = index.end_op() - begin;
  // The loss instant, and a few moments of the backward part.
  OpId before;
  for (const int32_t eighths : {0, 1, 2, 4}) {
    const OpId moment = begin + tail * eighths / 8;
    if (tail <= 0 || moment == before) continue;
    before = moment;
    const double kept_seconds_per_byte = moment == begin ? problem.kept_seconds_per_byte : 0;
    MomentBound bound(index, moment, kept_seconds_per_byte, RunBefore::ancestors,
                      runs ? &*runs : nullptr);
    for (size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = std::max(bounds[i], seconds + bound.extra_seconds(arena_budgets_bytes[i]));
  }
  return bounds;
}

double lower_bound_seconds(const Problem& problem, int64_t arena_budget_bytes) {
  return lower_bounds_seconds(problem, std::span(&arena_budget_bytes, 1)).front();
}

MomentCuts::MomentCuts(const ProblemIndex& index, OpId moment) {
  if (moment != index.end_op() && index.problem.ops.size() <= kMostCutOps)
    bound_ = std::make_unique<MomentBound>(index, moment, 0);
}
MomentCuts::~MomentCuts() = default;
MomentCuts::MomentCuts(MomentCuts&&) noexcept = default;
MomentCuts& MomentCuts::operator=(MomentCuts&&) noexcept = default;

std::vector<std::vector<StorageId>> MomentCuts::kept_sets(std::span<const int64_t> budgets,
                                                          size_t most) {
  std::vector<std::vector<StorageId>> sets;
  if (bound_ == nullptr) return sets;
  for (const int64_t budget_bytes : budgets) {
    (void)bound_->extra_seconds(budget_bytes);
    std::vector<std::vector<StorageId>> of_budget = bound_->take_kept();
    const size_t first = of_budget.size() > most ? of_budget.size() - most : 0;
    for (std::vector<StorageId>& kept : std::span(of_budget).subspan(first)) {
      if (std::find(sets.begin(), sets.end(), kept) == sets.end()) sets.push_back(std::move(kept));
    }
  }
  return sets;
}

}  // namespace snug::plan
