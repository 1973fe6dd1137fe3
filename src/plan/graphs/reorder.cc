// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/reorder.h"

#include <algorithm>
#include <set>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

// Which op must run before which: makers before readers, every access to a written resident storage
// on the same side of its writers, readers before the op that overwrites.
IdVector<OpId, std::vector<OpId>> successors_of(const ProblemIndex& index) {
  IdVector<OpId, std::set<OpId>> successors(index.op_count());
  IdVector<StorageId, OpId> last_writer(index.storage_count());
  IdVector<StorageId, std::vector<OpId>> readers(index.storage_count());
  for (const OpId id : index.op_ids()) {
    const Op& op = index.op(id);
    const auto after = [&](OpId before) {
      if (before != kNone && before != id) successors[before].insert(id);
    };
    for (const StorageId input : op.inputs) {
      after(index.storage(input).resident ? last_writer[input] : index.producer[input]);
      readers[input].push_back(id);
    }
    for (const StorageId output : op.outputs) {
      if (!index.storage(output).resident) continue;
      after(last_writer[output]);
      for (const OpId reader : readers[output]) after(reader);
      last_writer[output] = id;
      readers[output].clear();
    }
    for (const auto& [output, input] : op.reuses) {
      for (const OpId reader : readers[input]) after(reader);
    }
  }
  IdVector<OpId, std::vector<OpId>> lists;
  for (const auto& each : successors) lists.emplace_back(each.begin(), each.end());
  return lists;
}

struct Score {
  int64_t load_bytes = 0;
  double sum = 0;
  bool operator<(const Score& other) const {
    return load_bytes != other.load_bytes ? load_bytes < other.load_bytes
                                          : sum < other.sum * (1 - 1e-12);
  }
};

// Bytes of an order step by step, and of what moving one op makes of it: only the steps between the
// two places are looked at.
class OrderBytes {
 public:
  explicit OrderBytes(const ProblemIndex& index)
      : index_(index),
        order_(given_order(index.problem)),
        position_(order_.size(), 0),
        last_(index.storage_count(), 0),
        mark_(index.storage_count(), 0) {
    measure();
  }

  [[nodiscard]] const IndexVector<OpId>& order() const { return order_; }
  [[nodiscard]] int32_t position(OpId id) const { return position_[id]; }
  [[nodiscard]] Score score() const { return {largest_before_[size()], sum_}; }
  /// Operands and readers looked at so far.
  [[nodiscard]] int64_t work() const { return work_; }

  [[nodiscard]] Score score_if_moved(int32_t here, int32_t there) {
    const int32_t first = std::min(here, there);
    const int32_t end = std::max(here, there) + 1;
    Score score{std::max(largest_before_[first], largest_behind_[end]), sum_};
    replay(here, there, first, end, [&](int32_t step, int64_t bytes, int64_t) {
      score.load_bytes = std::max(score.load_bytes, bytes);
      score.sum += static_cast<double>(bytes - step_bytes_[step]);
    });
    return score;
  }

  void move(int32_t here, int32_t there) {
    const auto begin = order_.begin();
    if (here < there) {
      std::rotate(begin + here, begin + here + 1, begin + there + 1);
    } else {
      std::rotate(begin + there, begin + here, begin + here + 1);
    }
    measure();
  }

 private:
  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(order_.size()); }

  void measure() {
    const int32_t steps = size();
    for (int32_t step = 0; step < steps; ++step) position_[order_[step]] = step;
    step_bytes_.assign(order_.size(), 0);
    live_before_.assign(order_.size() + 1, 0);
    sum_ = 0;
    replay(0, 0, 0, steps, [&](int32_t step, int64_t bytes, int64_t live_behind) {
      step_bytes_[step] = bytes;
      live_before_[step + 1] = live_behind;
      sum_ += static_cast<double>(bytes);
    });
    largest_before_.assign(order_.size() + 1, 0);
    largest_behind_.assign(order_.size() + 1, 0);
    for (int32_t step = 0; step < steps; ++step)
      largest_before_[step + 1] = std::max(largest_before_[step], step_bytes_[step]);
    for (int32_t step = steps; step-- > 0;)
      largest_behind_[step] = std::max(largest_behind_[step + 1], step_bytes_[step]);
  }

  // The last step that reads a storage with one op moved; behind the end where it is kept, before
  // all where nothing reads it.
  int32_t last_read(StorageId id, int32_t here, int32_t there) {
    if (index_.arena_bytes(id) == 0) return size();  // it does not matter
    if (mark_[id] == replays_) return last_[id];
    mark_[id] = replays_;
    int32_t last = index_.in_keep[id] ? size() : -1;
    for (const OpId reader : index_.consumers[id]) {
      int32_t at = position_[reader];
      if (at == here) {
        at = there;
      } else if (here < at && at <= there) {
        --at;
      } else if (there <= at && at < here) {
        ++at;
      }
      last = std::max(last, at);
    }
    work_ += static_cast<int64_t>(index_.consumers[id].size());
    return last_[id] = last;
  }

  // The steps first .. end - 1 with the op of one place moved to another: bytes of each, and what
  // lives behind it.
  template <class Visit>
  void replay(int32_t here, int32_t there, int32_t first, int32_t end, Visit visit) {
    ++replays_;
    int64_t live = live_before_[first];
    for (int32_t step = first; step < end; ++step) {
      int32_t from = step;
      if (step == there) {
        from = here;
      } else if (here <= step && step < there) {
        ++from;
      } else if (there < step && step <= here) {
        --from;
      }
      const Op& op = index_.op(order_[from]);
      work_ += static_cast<int64_t>(op.inputs.size() + op.outputs.size()) + 1;
      int64_t bytes = op.scratch_bytes;
      for (const auto& [output, input] : op.reuses) {
        live -= index_.arena_bytes(input);
        bytes += std::max<int64_t>(0, index_.arena_bytes(input) - index_.arena_bytes(output));
      }
      for (const StorageId output : op.outputs) live += index_.arena_bytes(output);
      bytes += live;
      const auto is_taken = [&](StorageId id) {
        return std::any_of(op.reuses.begin(), op.reuses.end(),
                           [&](const auto& each) { return each.second == id; });
      };
      for (const StorageId input : op.inputs) {
        if (last_read(input, here, there) == step && !is_taken(input))
          live -= index_.arena_bytes(input);
      }
      for (const StorageId output : op.outputs) {
        if (last_read(output, here, there) < 0) live -= index_.arena_bytes(output);
      }
      visit(step, bytes, live);
    }
  }

  const ProblemIndex& index_;
  IndexVector<OpId> order_;
  IdVector<OpId, int32_t> position_;
  IndexVector<int64_t> step_bytes_;
  IndexVector<int64_t> live_before_;     // each step, and the end
  IndexVector<int64_t> largest_before_;  // of the steps before each, and before the end
  IndexVector<int64_t> largest_behind_;  // of each step and those behind it
  double sum_ = 0;
  int64_t work_ = 0;
  IdVector<StorageId, int32_t> last_;  // valid where marked
  IdVector<StorageId, int32_t> mark_;
  int32_t replays_ = 0;
};

}  // namespace

std::vector<OpId> lower_peak_order(const ProblemIndex& index) {
  constexpr int64_t kMostWork = 20'000'000;
  constexpr int32_t kMaxRounds = 4;
  const auto successors = successors_of(index);
  IdVector<OpId, std::vector<OpId>> predecessors(successors.size());
  for (const OpId id : index.op_ids()) {
    for (const OpId next : successors[id]) predecessors[next].push_back(id);
  }
  OrderBytes bytes(index);
  for (int32_t round = 0; round < kMaxRounds; ++round) {
    bool is_changed = false;
    for (const OpId id : index.op_ids()) {
      const int32_t here = bytes.position(id);
      int32_t first = 0;
      int32_t last = index.op_count() - 1;
      for (const OpId each : predecessors[id]) first = std::max(first, bytes.position(each) + 1);
      for (const OpId each : successors[id]) last = std::min(last, bytes.position(each) - 1);
      for (const int32_t there : {first, last}) {
        if (there == here || bytes.work() >= kMostWork) continue;
        stop_point();
        if (!(bytes.score_if_moved(here, there) < bytes.score())) continue;
        bytes.move(here, there);
        is_changed = true;
        break;
      }
    }
    if (!is_changed) break;
  }
  return bytes.order();
}

}  // namespace snug::plan
