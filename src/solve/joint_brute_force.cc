// SPDX-License-Identifier: Apache-2.0
#include "solve/joint_brute_force.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/phase.h"

namespace snug::solve::testing {
namespace {

using plan::GraphPart;
using plan::Op;
using plan::OpId;
using plan::Problem;
using plan::StorageId;

// Bits: 0 to 15 storages in memory, 16 to 31 views of what is there, 32 to 47 ops that have run, 48
// the backward part.
using State = uint64_t;
constexpr State kBackward = State{1} << 48;

State has_run_bit(OpId id) { return State{1} << (32 + id.number()); }

// The ops that have to run, whose first runs keep the listed order where they have to: all but
// those that make only views which somebody reads.
State listed_ops(const Problem& problem) {
  State listed = 0;
  for (const OpId id : problem.ops.ids()) {
    bool is_read_view = false;
    bool is_only_views = !problem.ops[id].outputs.empty();
    for (const StorageId output : problem.ops[id].outputs) {
      is_only_views = is_only_views && problem.storages[output].view_of != kNone;
      const auto reads = [&](const std::vector<StorageId>& ids) {
        return std::count(ids.begin(), ids.end(), output) > 0;
      };
      is_read_view = is_read_view || reads(problem.keep) ||
                     (problem.boundary && reads(problem.boundary->forward_outputs));
      for (const Op& reader : problem.ops) is_read_view = is_read_view || reads(reader.inputs);
      for (const Op& reader : problem.variants) is_read_view = is_read_view || reads(reader.inputs);
    }
    if (!is_only_views || !is_read_view) listed |= has_run_bit(id);
  }
  return listed;
}

class JointStates {
 public:
  explicit JointStates(const Problem& problem)
      : problem_(problem), bits_(problem.storages.size(), 0) {
    uint32_t storages = 0;
    uint32_t views = 16;
    for (const StorageId id : problem.storages.ids()) {
      const plan::Storage& storage = problem.storages[id];
      if (storage.view_of != kNone) {
        bits_[id] = State{1} << views++;
      } else if (!storage.resident) {
        bits_[id] = State{1} << storages++;
      }
    }
    SNUG_CHECK(
        storages <= kMostOfAKind && views <= 2 * kMostOfAKind && problem.ops.size() <= kMostOfAKind,
        "too large for bits");
    all_ran_ = listed_ops(problem);
    for (const StorageId id : problem.keep) kept_ |= needs(id);
    if (problem.boundary) {
      for (const StorageId id : problem.boundary->forward_outputs) at_boundary_ |= needs(id);
    }
  }

  [[nodiscard]] State start() const { return problem_.boundary ? 0 : kBackward; }
  [[nodiscard]] bool is_end(State state) const {
    const State wanted = all_ran_ | kept_ | kBackward;
    return (state & wanted) == wanted;
  }
  static State ran(OpId id) { return has_run_bit(id); }
  [[nodiscard]] OpId op_of(OpId run) const { return problem_.op_of(run); }
  [[nodiscard]] State bit(StorageId id) const { return bits_[id]; }

  // What follows when a storage is no longer what it was.
  [[nodiscard]] State without(State state, StorageId storage) const {
    state &= ~bits_[storage];
    return without_views(state, storage);
  }

  [[nodiscard]] int64_t bytes(State state) const {
    int64_t sum = 0;
    for (const StorageId id : problem_.storages.ids()) {
      if ((state & bits_[id]) != 0) sum += problem_.storages[id].bytes;
    }
    return sum;
  }
  [[nodiscard]] int64_t base(State state) const {
    if (!problem_.boundary) return 0;
    return (state & kBackward) != 0 ? problem_.boundary->backward_base_bytes
                                    : problem_.boundary->forward_base_bytes;
  }

  [[nodiscard]] bool may_cross(State state) const {
    return (state & kBackward) == 0 && (state & at_boundary_) == at_boundary_;
  }

  // A run of a variant is one of its op, with other inputs and scratch.
  [[nodiscard]] bool may_run(State state, OpId run) const {
    const Op& op = problem_.run(run);
    const OpId id = op_of(run);
    const bool has_run = (state & ran(id)) != 0;
    if (has_run && (op.is_ordered || !op.may_recompute || writes_resident(op))) return false;
    const bool is_forward = (state & kBackward) == 0;
    const bool is_backward_op =
        op.phase == Phase::backward || op.phase == Phase::update || op.part == GraphPart::backward;
    if (problem_.boundary && is_forward && is_backward_op) return false;
    if (!is_forward && op.part == GraphPart::forward) return false;
    State inputs = 0;
    for (const StorageId input : op.inputs) inputs |= needs(input);
    return (state & inputs) == inputs && sees_its_versions(state, id) && is_in_order(state, id);
  }

  // Whether it would add nothing.
  [[nodiscard]] bool is_idle(State state, OpId id) const {
    State made = ran(id);
    for (const StorageId output : problem_.ops[id].outputs) made |= bits_[output];
    return (state & made) == made;
  }

  [[nodiscard]] int64_t bytes_of_run(State state, OpId run) const {
    const Op& op = problem_.run(run);
    for (const StorageId output : op.outputs) state |= bits_[output];
    int64_t sum = bytes(state) + op.scratch_bytes + base(state);
    for (const auto& [output, input] : op.reuses)
      sum -= std::min(problem_.storages[output].bytes, problem_.storages[input].bytes);
    return sum;
  }

  [[nodiscard]] State after(State state, OpId run) const {
    const Op& op = problem_.run(run);
    for (const auto& [output, input] : op.reuses) state = without(state, input);
    for (const StorageId output : op.outputs) {
      if (problem_.storages[output].view_of == kNone) state = without_views(state, output);
    }
    for (const StorageId output : op.outputs) state |= bits_[output];
    return state | ran(op_of(run));
  }

 private:
  // Itself and what it lies in.
  [[nodiscard]] State needs(StorageId id) const {
    const StorageId base = problem_.storages[id].view_of;
    return bits_[id] | (base == kNone ? 0 : bits_[base]);
  }
  [[nodiscard]] State without_views(State state, StorageId storage) const {
    if (problem_.storages[storage].resident) return state;  // a view of it stays one
    for (const StorageId id : problem_.storages.ids()) {
      if (problem_.storages[id].view_of == storage) state &= ~bits_[id];
    }
    return state;
  }
  [[nodiscard]] bool writes_resident(const Op& op) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](StorageId id) { return problem_.storages[id].resident; });
  }
  [[nodiscard]] bool makes_views(const Op& op) const {
    return !op.outputs.empty() &&
           std::all_of(op.outputs.begin(), op.outputs.end(),
                       [&](StorageId id) { return problem_.storages[id].view_of != kNone; });
  }
  [[nodiscard]] bool touches(const Op& op, StorageId id) const {
    const auto is_it = [&](StorageId each) {
      return each == id || problem_.storages[each].view_of == id;
    };
    return std::any_of(op.inputs.begin(), op.inputs.end(), is_it) ||
           std::any_of(op.outputs.begin(), op.outputs.end(), is_it);
  }
  [[nodiscard]] bool sees_its_versions(State state, OpId id) const {
    if (makes_views(problem_.ops[id])) return true;
    for (const OpId writer : problem_.ops.ids()) {
      if (writer == id) continue;
      for (const StorageId output : problem_.ops[writer].outputs) {
        if (!problem_.storages[output].resident || !touches(problem_.ops[id], output)) continue;
        if (((state & ran(writer)) != 0) != (writer < id)) return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool is_in_order(State state, OpId id) const {
    if (!problem_.ops[id].is_ordered) return true;
    for (const OpId other : problem_.ops.ids()) {
      if (!problem_.ops[other].is_ordered || other == id) continue;
      if (((state & ran(other)) != 0) != (other < id)) return false;
    }
    return true;
  }

  const Problem& problem_;
  IdVector<StorageId, State> bits_;
  State all_ran_ = 0;
  State kept_ = 0;
  State at_boundary_ = 0;
};

State listed_before_boundary(const Problem& problem) {
  State before = 0;
  for (const OpId id : problem.ops.ids()) {
    const Phase phase = problem.ops[id].phase;
    if (phase == Phase::backward || phase == Phase::update) break;
    before |= JointStates::ran(id);
  }
  return before;
}

}  // namespace

std::optional<double> least_cost(const Problem& problem, int64_t budget_bytes, bool may_reorder) {
  const JointStates states(problem);
  const State listed = listed_ops(problem);
  const State before_boundary = listed & listed_before_boundary(problem);
  if (states.base(states.start()) > budget_bytes) return std::nullopt;
  std::unordered_map<State, double> best;
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>,
                      std::greater<>>
      queue;
  const auto reach = [&](State state, double cost) {
    const auto [found, is_new] = best.emplace(state, cost);
    if (!is_new && found->second <= cost) return;
    found->second = cost;
    queue.emplace(cost, state);
  };
  reach(states.start(), 0);
  while (!queue.empty()) {
    const auto [cost, state] = queue.top();
    queue.pop();
    if (best[state] < cost) continue;
    if (states.is_end(state)) return cost;
    for (const StorageId id : problem.storages.ids()) {
      const bool is_there = (state & states.bit(id)) != 0;
      if (is_there && problem.storages[id].bytes > 0) reach(states.without(state, id), cost);
    }
    const bool is_turn = may_reorder || (state & listed) == before_boundary;
    if (states.may_cross(state) && is_turn &&
        states.bytes(state) + problem.boundary->between_bytes <= budget_bytes)
      reach(state | kBackward, cost);
    for (const OpId run : IdRange(OpId(0), OpId(problem.run_count()))) {
      const OpId id = problem.op_of(run);
      const State one = JointStates::ran(id);
      const bool is_first = (state & one) == 0 && (listed & one) != 0;
      if (is_first && !may_reorder && (state & listed) != (listed & (one - 1))) continue;
      if (states.is_idle(state, id) || !states.may_run(state, run)) continue;
      if (states.bytes_of_run(state, run) > budget_bytes) continue;
      reach(states.after(state, run), cost + problem.run(run).seconds);
    }
  }
  return std::nullopt;
}

bool is_valid(const Problem& problem, const std::vector<OpId>& schedule, size_t boundary_step) {
  const JointStates states(problem);
  State state = states.start();
  for (size_t step = 0; step <= schedule.size(); ++step) {
    if (problem.boundary && step == boundary_step) {
      if (!states.may_cross(state)) return false;
      state |= kBackward;
    }
    if (step == schedule.size()) break;
    if (!states.may_run(state, schedule[step])) return false;
    state = states.after(state, schedule[step]);
  }
  return states.is_end(state);
}

}  // namespace snug::solve::testing
