// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/plain_problem.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/stop.h"
#include "plan/problem/joint.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

bool has(const std::vector<StorageId>& ids, StorageId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void add_once(std::vector<StorageId>& ids, StorageId id) {
  if (!has(ids, id)) ids.push_back(id);
}

class PlainMaker {
 public:
  explicit PlainMaker(const Problem& joint)
      : joint_(joint),
        variants_(joint.variants.empty() ? 0 : joint.ops.size()),
        is_read_(joint.storages.size(), false),
        is_late_view_(joint.storages.size(), false),
        is_made_behind_(joint.storages.size(), false) {}

  PlainProblem make() {
    for (const OpId id : joint_.variant_ids()) variants_[joint_.op_of(id)].push_back(id);
    find_read();
    copy_storages();
    if (joint_.boundary) begin_boundary();
    for (const OpId id : joint_.ops.ids()) {
      stop_point();
      if (joint_.boundary && id == first_behind_boundary_) add_between();
      const Op& op = joint_.ops[id];
      note_late_views(op);
      if (!is_left_out(op)) add(id);
    }
    result_.original.insert(result_.original.end(), original_variants_.begin(),
                            original_variants_.end());
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_left_out(const Op& op) const {
    return makes_only_views(joint_, op) &&
           std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](StorageId output) { return is_read_[output]; });
  }

  void find_read() {
    const auto note_inputs = [&](const Op& op) {
      for (const StorageId input : op.inputs) is_read_[input] = true;
    };
    for (const Op& op : joint_.ops) note_inputs(op);
    for (const Op& variant : joint_.variants) note_inputs(variant);
    for (const StorageId id : joint_.keep) is_read_[id] = true;
    if (!joint_.boundary) return;
    for (const StorageId id : joint_.boundary->forward_outputs) is_read_[id] = true;
  }

  void copy_storages() {
    Problem& plain = result_.problem;
    plain.alignment = joint_.alignment;
    plain.kept_seconds_per_byte = joint_.kept_seconds_per_byte;
    plain.storages = joint_.storages;
    for (Storage& storage : plain.storages) {
      if (storage.view_of == kNone) continue;
      storage.view_of = kNone;
      storage.resident = true;  // nothing names it, and it takes no place
    }
    for (const StorageId id : joint_.keep) add_once(plain.keep, root_of(joint_, id));
    const auto ordered = std::count_if(joint_.ops.begin(), joint_.ops.end(),
                                       [](const Op& op) { return op.is_ordered; });
    if (ordered > 1) order_ = plain.storages.add({"(order)", 0, true});
  }

  // What the forward part has more, made in front of everything.
  void begin_boundary() {
    const GraphBoundary& boundary = *joint_.boundary;
    Problem& plain = result_.problem;
    first_behind_boundary_ = first_behind_boundary(joint_);
    result_.common_bytes = std::min(boundary.forward_base_bytes, boundary.backward_base_bytes);
    gate_ = plain.storages.add({"(backward part)", 0, false});
    const bool has_forward_ops =
        std::any_of(joint_.ops.begin(), joint_.ops.end(),
                    [](const Op& op) { return op.part == GraphPart::forward; });
    if (has_forward_ops) token_ = plain.storages.add({"(boundary)", 0, true});
    const int64_t more = boundary.forward_base_bytes - result_.common_bytes;
    if (more == 0) return;
    forward_base_ = plain.storages.add({"(forward base)", more, false});
    start_ = plain.storages.add({"(forward part)", 0, false});
    Op op;
    op.name = "(forward base)";
    op.outputs = {forward_base_, start_};
    op.may_recompute = false;
    add_boundary_op(std::move(op));
  }

  void add_between() {
    const GraphBoundary& boundary = *joint_.boundary;
    Problem& plain = result_.problem;
    Op op;
    op.name = "(between the parts)";
    op.phase = Phase::backward;
    op.may_recompute = false;
    for (const StorageId id : boundary.forward_outputs) {
      const StorageId root = root_of(joint_, id);
      if (!joint_.storages[root].resident) add_once(op.inputs, root);
    }
    if (forward_base_ != kNone) op.inputs.push_back(forward_base_);
    op.outputs = {gate_};
    if (token_ != kNone) op.outputs.push_back(token_);
    const int64_t more = boundary.backward_base_bytes - result_.common_bytes;
    if (more > 0) {
      op.outputs.push_back(plain.storages.add({"(backward base)", more, false}));
      plain.keep.push_back(op.outputs.back());
    }
    // Less than a base is never the peak: the forward part's last step has all that is there then,
    // and the forward base.
    const int64_t base = std::max(boundary.forward_base_bytes, boundary.backward_base_bytes);
    int64_t least = result_.common_bytes;
    // Nor the backward part's, whose first step has what is there and its base, where it has one.
    bool has_steps_behind = false;
    for (const OpId id : joint_.ops.ids())
      has_steps_behind |= id >= first_behind_boundary_ && !is_left_out(joint_.ops[id]);
    if (!has_steps_behind) least = boundary.backward_base_bytes;
    op.scratch_bytes = std::max(boundary.between_bytes, least) - base;
    result_.between = add_boundary_op(std::move(op));
  }

  OpId add_boundary_op(Op op) {
    ++result_.boundary_ops;
    result_.original.push_back(kNone);
    return result_.problem.ops.add(std::move(op));
  }

  // A view that is made only in the backward part takes its readers there.
  void note_late_views(const Op& op) {
    if (!makes_only_views(joint_, op)) return;
    const bool is_late = is_of_backward_part(op) || reads_late_view(op);
    for (const StorageId output : op.outputs) is_late_view_[output] = is_late;
  }
  [[nodiscard]] bool reads_late_view(const Op& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](StorageId input) { return is_late_view_[input]; });
  }

  void add(OpId id) {
    Way op = plain(id);
    bool is_made_behind = op.is_behind;
    const OpId plain_id = result_.problem.ops.end_id();
    for (const OpId variant : variants_.empty() ? std::vector<OpId>() : variants_[id]) {
      Way way = plain(variant);
      way.op.variant_of = plain_id;
      is_made_behind = is_made_behind && way.is_behind;
      result_.problem.variants.push_back(std::move(way.op));
      original_variants_.push_back(variant);
    }
    for (const StorageId output : joint_.ops[id].outputs) {
      if (!joint_.storages[output].resident) is_made_behind_[output] = is_made_behind;
    }
    result_.original.push_back(id);
    result_.problem.ops.push_back(std::move(op.op));
  }

  struct Way {
    Op op;
    bool is_behind = false;  // runs only behind the boundary
  };

  // The op or variant, in the plain problem.
  [[nodiscard]] Way plain(OpId id) const {
    const Op& joint = joint_.run(id);
    Op op = joint;
    op.is_ordered = false;
    op.part = GraphPart::any;
    op.inputs.clear();
    op.outputs.clear();
    bool reads_arena = false;
    for (const StorageId input : joint.inputs) {
      const StorageId root = root_of(joint_, input);
      add_once(op.inputs, root);
      reads_arena = reads_arena || !joint_.storages[root].resident;
    }
    for (const StorageId output : joint.outputs) {
      if (root_of(joint_, output) == output) op.outputs.push_back(output);
    }
    if (joint.is_ordered && order_ != kNone) op.outputs.push_back(order_);
    const bool is_behind = joint_.boundary && bind_to_part(joint, op, reads_arena);
    return {std::move(op), is_behind};
  }

  // What reads of the backward part, or of what the first ops read, needs no more to lie there.
  // Whether it runs only behind the boundary.
  bool bind_to_part(const Op& joint, Op& op, bool reads_arena) const {
    const bool reads_behind = std::any_of(op.inputs.begin(), op.inputs.end(),
                                          [&](StorageId input) { return is_made_behind_[input]; });
    const bool is_bound = is_of_backward_part(joint) || reads_late_view(joint);
    if (is_bound && !reads_behind) {
      op.inputs.push_back(gate_);
    } else if (!reads_arena && start_ != kNone) {
      op.inputs.push_back(start_);
    }
    if (joint.part == GraphPart::forward) op.inputs.push_back(token_);
    return is_bound || reads_behind;
  }

  const Problem& joint_;
  PlainProblem result_;
  IdVector<OpId, std::vector<OpId>> variants_;  // by op; empty where there are none
  std::vector<OpId> original_variants_;
  IdVector<StorageId, bool> is_read_;
  IdVector<StorageId, bool> is_late_view_;
  IdVector<StorageId, bool> is_made_behind_;  // by an op that runs only behind the boundary
  OpId first_behind_boundary_;
  StorageId order_;
  StorageId gate_;          // made at the boundary
  StorageId token_;         // written there
  StorageId forward_base_;  // what the forward base has more than the other
  StorageId start_;         // made with it
};

// Puts the ops back that make views: each in front of the first op that reads one of this very
// instance.
class JointReplay {
 public:
  explicit JointReplay(const Problem& joint)
      : joint_(joint),
        maker_(joint.storages.size()),
        instance_(joint.storages.size(), 0),
        made_of_(joint.storages.size(), -1) {
    for (const OpId id : joint.ops.ids()) {
      if (!makes_only_views(joint, joint.ops[id])) continue;
      for (const StorageId output : joint.ops[id].outputs) maker_[output] = id;
      has_views_ = true;
    }
  }

  void want(const std::vector<StorageId>& ids) {
    if (!has_views_) return;
    std::set<OpId> missing;
    std::vector<StorageId> open(ids);
    while (!open.empty()) {
      const StorageId id = open.back();
      open.pop_back();
      const OpId maker = maker_[id];
      if (maker == kNone || made_of_[id] == instance_[root_of(joint_, id)]) continue;
      if (!missing.insert(maker).second) continue;
      const auto& inputs = joint_.ops[maker].inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    for (const OpId id : missing) run(id);  // the listed order is one of theirs
  }

  void run(OpId id) {
    const Op& op = joint_.run(id);
    steps.push_back(id);
    for (const StorageId output : op.outputs) {
      if (root_of(joint_, output) == output) ++instance_[output];
    }
    for (const StorageId output : op.outputs) made_of_[output] = instance_[root_of(joint_, output)];
  }

  std::vector<OpId> steps;

 private:
  const Problem& joint_;
  bool has_views_ = false;
  IdVector<StorageId, OpId> maker_;  // of views, where it makes only views
  IdVector<StorageId, int32_t> instance_;
  IdVector<StorageId, int32_t> made_of_;  // the root's instance of which a view is
};

// Where the schedule crosses the boundary, and the bytes on both sides.
PartBytes measure_parts(const Problem& joint, const PlainProblem& plain,
                        std::span<const OpId> schedule) {
  const Liveness live = analyse(plain.problem, schedule);
  const auto found = std::find(schedule.begin(), schedule.end(), plain.between);
  const auto between = static_cast<int32_t>(found - schedule.begin());
  PartBytes parts;
  parts.forward_peak_bytes = joint.boundary->forward_base_bytes;
  parts.backward_peak_bytes = joint.boundary->backward_base_bytes;
  for (int32_t step = 0; step < static_cast<int32_t>(schedule.size()); ++step) {
    if (step == between) continue;
    int64_t& peak = step < between ? parts.forward_peak_bytes : parts.backward_peak_bytes;
    peak = std::max(peak, live.step_bytes[step] + plain.common_bytes);
  }
  // Only views are made behind the boundary, and what is kept to the end lives there.
  const bool is_last = between + 1 == static_cast<int32_t>(schedule.size());
  // What the first step behind the boundary overwrites has crossed it, too.
  std::vector<bool> is_overwritten(live.ranges.size(), false);
  for (size_t i = 0; i < live.ranges.size(); ++i) {
    const int32_t place = live.place_of[i];
    if (place >= 0 && live.ranges[i].first == between + 1)
      is_overwritten[static_cast<size_t>(place)] = true;
  }
  for (size_t i = 0; i < live.ranges.size(); ++i) {
    const LiveRange& range = live.ranges[i];
    if (range.is_scratch() || !joint.storages.has(range.storage)) continue;
    const bool is_kept = is_last && range.last == between && has(plain.problem.keep, range.storage);
    const bool crosses =
        range.first < between && (range.last > between || is_overwritten[i] || is_kept);
    if (!crosses) continue;
    parts.crossing.push_back(range.storage);
    parts.crossing_bytes += range.bytes;
  }
  if (is_last) parts.backward_peak_bytes += parts.crossing_bytes;
  return parts;
}

}  // namespace

PlainProblem plain_problem(const Problem& problem) { return PlainMaker(problem).make(); }

JointSchedule joint_schedule(const Problem& problem, const PlainProblem& plain,
                             std::span<const OpId> schedule) {
  JointReplay replay(problem);
  JointSchedule result;
  if (problem.boundary) result.parts = measure_parts(problem, plain, schedule);
  for (const OpId step : schedule) {
    stop_point();
    const OpId id = plain.original[step];
    if (id != kNone) {
      replay.want(problem.run(id).inputs);
      replay.run(id);
    } else if (step == plain.between) {
      replay.want(problem.boundary->forward_outputs);
      result.parts->boundary_step = static_cast<int64_t>(replay.steps.size());
    }
  }
  replay.want(problem.keep);
  result.ops = std::move(replay.steps);
  return result;
}

}  // namespace snug::plan
