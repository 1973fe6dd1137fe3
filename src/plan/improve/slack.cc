// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/slack.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {
namespace {

constexpr int64_t kNothingRuns = int64_t{1} << 60;

// Bytes in use at every step, with changes and maxima over spans of steps in logarithmic time. Most
// spans are short, so that the tree is walked from its leaves: the root is node 1, the two below a
// node are 2 * node and the next.
class StepBytes {
 public:
  explicit StepBytes(const std::vector<int64_t>& bytes)
      : leaves_(std::bit_ceil(std::max<size_t>(1, bytes.size()))),
        highest_(2 * leaves_, std::numeric_limits<int64_t>::min() / 2),
        change_(2 * leaves_, 0) {
    std::copy(bytes.begin(), bytes.end(), highest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_; node-- > 1;) sum_up(node);
  }
  /// Steps [begin, end).
  void add(size_t begin, size_t end, int64_t bytes) {
    if (begin >= end) return;
    size_t low = leaves_ + begin;
    size_t high = leaves_ + end - 1;
    add_at(low, bytes);
    if (low != high) add_at(high, bytes);
    for (; low / 2 != high / 2; low /= 2, high /= 2) {
      if (is_left(low)) add_at(low + 1, bytes);
      if (!is_left(high)) add_at(high - 1, bytes);
      sum_up(low / 2);
      sum_up(high / 2);
    }
    while (low /= 2) sum_up(low);
  }
  [[nodiscard]] int64_t highest(size_t begin, size_t end) const {
    if (begin >= end) return std::numeric_limits<int64_t>::min() / 2;
    size_t low = leaves_ + begin;
    size_t high = leaves_ + end - 1;
    int64_t at_low = highest_[low];
    int64_t at_high = highest_[high];
    for (; low / 2 != high / 2; low /= 2, high /= 2) {
      if (is_left(low)) at_low = std::max(at_low, highest_[low + 1]);
      if (!is_left(high)) at_high = std::max(at_high, highest_[high - 1]);
      at_low += change_[low / 2];
      at_high += change_[high / 2];
    }
    int64_t all = std::max(at_low, at_high);
    while (low /= 2) all += change_[low];
    return all;
  }

 private:
  static bool is_left(size_t node) { return node % 2 == 0; }
  void add_at(size_t node, int64_t bytes) {
    highest_[node] += bytes;
    change_[node] += bytes;
  }
  void sum_up(size_t node) {
    highest_[node] = std::max(highest_[2 * node], highest_[2 * node + 1]) + change_[node];
  }

  size_t leaves_ = 0;
  IndexVector<int64_t> highest_;  // of the steps below a node, its own change included
  IndexVector<int64_t> change_;   // for all steps below a node
};

// A schedule whose steps can be taken out, with liveness kept up to date.
class SlackFiller {
 public:
  SlackFiller(const ProblemIndex& index, IndexSpan<const OpId> schedule,
              const std::vector<int64_t>& step_bytes, int64_t limit_bytes)
      : index_(index),
        schedule_(schedule),
        limit_bytes_(limit_bytes),
        is_removed_(schedule.size(), false),
        step_bytes_(step_bytes) {
    IdVector<StorageId, int32_t> newest(index.storage_count(), -1);
    first_instance_.reserve(schedule.size() + 1);
    read_end_.reserve(schedule.size());
    instances_.reserve(schedule.size());
    reads_.reserve(schedule.size() * 2);
    SparseStopPoint<64> stop_now_and_then;
    for (size_t step = 0; step < schedule.size(); ++step) {
      stop_now_and_then();
      const Op& op = index.op(schedule[step]);
      for (const StorageId input : op.inputs) {
        if (index.storage(input).resident) continue;
        add_read(static_cast<int32_t>(step), newest[input]);
      }
      read_end_.push_back(static_cast<int32_t>(reads_.size()));
      first_instance_.push_back(static_cast<int32_t>(instances_.size()));
      for (const StorageId output : op.outputs) {
        if (index.storage(output).resident) continue;
        Instance made;
        made.bytes = index.storage(output).bytes;
        made.step = static_cast<int32_t>(step);
        made.previous = newest[output];
        newest[output] = static_cast<int32_t>(instances_.size());
        instances_.push_back(made);
      }
    }
    first_instance_.push_back(static_cast<int32_t>(instances_.size()));
    for (const StorageId kept : index.problem.keep) {
      const int32_t instance = newest[kept];
      if (instance >= 0) instances_[instance].is_kept = true;
    }
  }

  std::vector<OpId> run() {
    SparseStopPoint<64> stop_now_and_then;
    std::vector<int32_t> repeats;
    for (size_t step = 0; step < schedule_.size(); ++step) {
      stop_now_and_then();
      if (is_repeat(static_cast<int32_t>(step))) repeats.push_back(static_cast<int32_t>(step));
    }
    for (size_t i = repeats.size(); i-- > 0;) {
      stop_now_and_then();
      if (is_dead(repeats[i])) take_out(repeats[i]);
    }
    IndexVector<double> prices(schedule_.size(), 0.0);
    for (const int32_t step : repeats) prices[step] = price(step);
    std::stable_sort(repeats.begin(), repeats.end(),
                     [&](int32_t a, int32_t b) { return prices[a] > prices[b]; });
    for (int32_t round = 0; round < 3; ++round) {
      bool is_changed = false;
      for (const int32_t step : repeats) {
        stop_now_and_then();
        if (is_removed_[step] || !fits_without(step)) continue;
        take_out(step);
        is_changed = true;
      }
      if (!is_changed) break;
    }
    std::vector<OpId> result;
    for (size_t step = 0; step < schedule_.size(); ++step) {
      if (!is_removed_[step]) result.push_back(schedule_[step]);
    }
    return result;
  }

 private:
  struct Instance {
    int64_t bytes = 0;
    int32_t step = 0;
    int32_t previous = -1;  // the instance of the same storage before
    bool is_kept = false;
    int32_t first_read = -1;  // of reads_, a list by rising steps
    int32_t last_read = -1;
    [[nodiscard]] bool is_read() const { return first_read >= 0; }
  };
  struct Read {
    int32_t step = 0;
    int32_t instance = 0;  // that the schedule as given reads
    int32_t next = -1;     // of the instance that is read now
  };

  void add_read(int32_t step, int32_t instance) {
    Instance& read = instances_[instance];
    const auto id = static_cast<int32_t>(reads_.size());
    reads_.push_back({.step = step, .instance = instance});
    (read.is_read() ? reads_[read.last_read].next : read.first_read) = id;
    read.last_read = id;
  }
  // All readers of `from`, which come after those of `to`.
  void hand_reads(Instance& from, Instance& to) {
    if (!from.is_read()) return;
    (to.is_read() ? reads_[to.last_read].next : to.first_read) = from.first_read;
    to.last_read = from.last_read;
    from.first_read = from.last_read = -1;
  }
  void erase_reads(Instance& read, int32_t step) {
    int32_t before = -1;
    for (int32_t id = read.first_read; id >= 0;) {
      const Read& each = reads_[id];
      if (each.step == step) {
        (before >= 0 ? reads_[before].next : read.first_read) = each.next;
        if (id == read.last_read) read.last_read = before;
      } else {
        before = id;
      }
      id = each.next;
    }
  }

  [[nodiscard]] std::span<Instance> made_by(int32_t step) {
    const auto begin = static_cast<size_t>(first_instance_[step]);
    const auto end = static_cast<size_t>(first_instance_[step + 1]);
    return std::span(instances_).subspan(begin, end - begin);
  }
  // A later run of an op: all its outputs exist from before.
  [[nodiscard]] bool is_repeat(int32_t step) {
    const auto made = made_by(step);
    if (made.empty()) return false;
    return std::all_of(made.begin(), made.end(),
                       [](const Instance& each) { return each.previous >= 0; });
  }
  [[nodiscard]] bool is_dead(int32_t step) {
    const auto made = made_by(step);
    return std::all_of(made.begin(), made.end(),
                       [](const Instance& each) { return !each.is_read() && !each.is_kept; });
  }
  [[nodiscard]] double price(int32_t step) {
    int64_t bytes = 1;
    for (const Instance& each : made_by(step)) bytes += each.is_read() ? each.bytes : 0;
    return index_.op(schedule_[step]).seconds / static_cast<double>(bytes);
  }
  [[nodiscard]] int32_t last_of(const Instance& instance) const {
    if (instance.is_kept) return static_cast<int32_t>(schedule_.size()) - 1;
    if (!instance.is_read()) return instance.step;
    return std::max(instance.step, reads_[instance.last_read].step);
  }
  // The newest earlier instance whose step still runs.
  [[nodiscard]] Instance& earlier(const Instance& instance) {
    int32_t id = instance.previous;
    while (is_removed_[instances_[id].step]) {
      id = instances_[id].previous;
    }
    return instances_[id];
  }

  [[nodiscard]] bool fits_without(int32_t step) {
    // Every read output stays from its earlier instance; all of them together must fit.
    std::vector<std::pair<int32_t, int64_t>> stays;  // from this step on, so many bytes more
    for (const Instance& each : made_by(step)) {
      if (!each.is_read() && !each.is_kept) continue;
      stays.emplace_back(last_of(earlier(each)) + 1, each.bytes);
    }
    std::sort(stays.begin(), stays.end());
    int64_t more = 0;
    for (size_t i = 0; i < stays.size(); ++i) {
      more += stays[i].second;
      const int32_t end = i + 1 < stays.size() ? std::min(stays[i + 1].first, step) : step;
      const int64_t highest = step_bytes_.highest(static_cast<size_t>(stays[i].first),
                                                  static_cast<size_t>(std::max(end, 0)));
      if (highest + more > limit_bytes_) return false;
    }
    return true;
  }

  void add_bytes(int32_t first, int32_t last, int64_t bytes) {
    step_bytes_.add(static_cast<size_t>(first), static_cast<size_t>(last) + 1, bytes);
  }

  void take_out(int32_t step) {
    if (is_removed_[step]) return;
    for (Instance& each : made_by(step)) {
      Instance& before = earlier(each);
      const int32_t old_last = last_of(before);
      const int32_t own_last = last_of(each);
      add_bytes(each.step, own_last, -each.bytes);
      if (each.is_read() || each.is_kept) {
        hand_reads(each, before);
        before.is_kept = before.is_kept || each.is_kept;
        add_bytes(old_last + 1, last_of(before), each.bytes);
      }
      each.is_kept = false;
    }
    is_removed_[step] = true;
    add_bytes(step, step, -kNothingRuns);
    const auto begin = step == 0 ? 0 : read_end_[step - 1];
    for (int32_t r = begin; r < read_end_[step]; ++r) {
      // The newest live instance took over the readers of those taken out.
      int32_t id = reads_[r].instance;
      while (is_removed_[instances_[id].step]) {
        id = instances_[id].previous;
      }
      Instance& read = instances_[id];
      const int32_t old_last = last_of(read);
      erase_reads(read, step);
      const int32_t new_last = last_of(read);
      if (new_last < old_last) add_bytes(new_last + 1, old_last, -read.bytes);
      if (is_repeat(read.step) && is_dead(read.step)) take_out(read.step);
    }
  }

  const ProblemIndex& index_;
  IndexSpan<const OpId> schedule_;
  int64_t limit_bytes_;
  IndexVector<bool> is_removed_;
  IndexVector<Instance> instances_;
  IndexVector<int32_t> first_instance_;  // per step
  IndexVector<Read> reads_;              // step by step
  IndexVector<int32_t> read_end_;        // per step
  StepBytes step_bytes_;                 // far below zero at steps that are taken out
};

}  // namespace

std::vector<OpId> fill_slack(const ProblemIndex& index, IndexSpan<const OpId> schedule,
                             const StepLoads& loads, int64_t limit_bytes) {
  return SlackFiller(index, schedule, loads.step_bytes, limit_bytes).run();
}

}  // namespace snug::plan
