// SPDX-License-Identifier: Apache-2.0
#include "solve/remat_check.h"

#include <algorithm>
#include <map>
#include <set>

namespace snug::solve {
namespace {

using plan::Op;
using plan::StorageId;

constexpr size_t kMaxViolations = 20;

class Replayer {
 public:
  Replayer(const plan::Problem& problem, const std::vector<std::string>& schedule)
      : problem_(problem) {
    std::map<std::string, const Op*> by_name;
    for (const Op& op : problem.ops) by_name[op.name] = &op;
    for (size_t step = 0; step < schedule.size(); ++step) {
      const auto found = by_name.find(schedule[step]);
      if (found == by_name.end()) {
        violation(step, "there is no op \"" + schedule[step] + "\"");
      } else {
        steps_.push_back(found->second);
      }
    }
  }

  RematCheck run() {
    result_.steps = static_cast<int64_t>(steps_.size());
    for (const Op& op : problem_.ops) result_.base_cost += op.seconds;
    if (!result_.violations.empty()) return result_;
    check_counts();
    check_reads();
    if (!result_.violations.empty()) return result_;
    measure();
    return result_;
  }

 private:
  void violation(size_t step, const std::string& text) {
    if (result_.violations.size() < kMaxViolations)
      result_.violations.push_back("step " + std::to_string(step) + ": " + text);
  }
  [[nodiscard]] const std::string& name(StorageId id) const { return problem_.storages[id].name; }
  [[nodiscard]] bool is_resident(StorageId id) const { return problem_.storages[id].resident; }
  static bool has(const std::vector<StorageId>& ids, StorageId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  // Every op runs; one that may not run again, or writes resident storage, runs once.
  void check_counts() {
    std::map<const Op*, int64_t> runs;
    for (const Op* op : steps_) ++runs[op];
    for (const Op& op : problem_.ops) {
      const bool once =
          !op.may_recompute || std::any_of(op.outputs.begin(), op.outputs.end(),
                                           [&](StorageId id) { return is_resident(id); });
      const int64_t count = runs[&op];
      result_.cost += static_cast<double>(count) * op.seconds;
      if (count == 0) violation(steps_.size(), "op \"" + op.name + "\" has never run");
      if (once && count > 1) {
        violation(steps_.size(), "op \"" + op.name + "\" has run " + std::to_string(count) +
                                     " times and may run once");
      }
    }
  }

  // What a read of a resident storage sees: the ops that have written it.
  [[nodiscard]] std::set<const Op*> writers_in(const std::vector<const Op*>& ops, StorageId id,
                                               size_t before) const {
    std::set<const Op*> writers;
    for (size_t step = 0; step < before; ++step) {
      if (has(ops[step]->outputs, id)) writers.insert(ops[step]);
    }
    return writers;
  }

  void check_reads() {
    std::vector<const Op*> listed;
    std::set<StorageId> written;
    for (const Op& op : problem_.ops) {
      listed.push_back(&op);
      for (const StorageId id : op.outputs) {
        if (is_resident(id)) written.insert(id);
      }
    }
    std::set<StorageId> present;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Op& op = *steps_[step];
      for (const StorageId id : op.inputs) {
        if (!is_resident(id) && !present.contains(id)) {
          violation(step, "op \"" + op.name + "\" reads \"" + name(id) + "\", which is not there");
        }
      }
      std::set<StorageId> seen(op.inputs.begin(), op.inputs.end());
      seen.insert(op.outputs.begin(), op.outputs.end());
      for (const StorageId id : seen) {
        if (!written.contains(id)) continue;
        const auto position = static_cast<size_t>(&op - problem_.ops.data());
        if (writers_in(steps_, id, step) != writers_in(listed, id, position)) {
          violation(step, "op \"" + op.name + "\" sees \"" + name(id) +
                              "\" after other writes than in the listed order");
        }
      }
      for (const auto& [output, input] : op.reuses) present.erase(input);
      present.insert(op.outputs.begin(), op.outputs.end());
    }
    for (const StorageId id : problem_.keep) {
      if (!is_resident(id) && !present.contains(id))
        violation(steps_.size(), "\"" + name(id) + "\" is to be kept and is not there at the end");
    }
  }

  // Whether the storage is read at `step` or later, before it is made again.
  [[nodiscard]] bool is_wanted(StorageId id, int64_t step) const {
    const auto found = touches_.find(id);
    if (found != touches_.end()) {
      const auto next = found->second.lower_bound(step);
      if (next != found->second.end()) return next->second;
    }
    return has(problem_.keep, id);
  }

  void measure() {
    for (size_t step = 0; step < steps_.size(); ++step) {
      for (const StorageId id : steps_[step]->outputs)
        touches_[id][static_cast<int64_t>(step)] = false;
      for (const StorageId id : steps_[step]->inputs)
        touches_[id][static_cast<int64_t>(step)] = true;
    }
    std::set<StorageId> live;
    int64_t live_bytes = 0;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Op& op = *steps_[step];
      for (const StorageId id : op.outputs) {
        if (!is_resident(id) && live.insert(id).second) live_bytes += bytes_of(id);
      }
      int64_t bytes = live_bytes + op.scratch_bytes;
      for (const auto& [output, input] : op.reuses)
        bytes -= std::min(bytes_of(output), bytes_of(input));
      if (bytes > result_.peak_bytes || result_.peak_op.empty()) {
        result_.peak_bytes = bytes;
        result_.peak_op = op.name;
      }
      // Only what this step touched can be wanted no more.
      std::set<StorageId> touched(op.inputs.begin(), op.inputs.end());
      touched.insert(op.outputs.begin(), op.outputs.end());
      for (const StorageId id : touched) {
        if (!is_wanted(id, static_cast<int64_t>(step) + 1) && live.erase(id) > 0)
          live_bytes -= bytes_of(id);
      }
    }
  }
  [[nodiscard]] int64_t bytes_of(StorageId id) const { return problem_.storages[id].bytes; }

  const plan::Problem& problem_;
  std::vector<const Op*> steps_;
  std::map<StorageId, std::map<int64_t, bool>> touches_;  // step: whether it reads
  RematCheck result_;
};

}  // namespace

RematCheck replay(const plan::Problem& problem, const std::vector<std::string>& schedule) {
  return Replayer(problem, schedule).run();
}

}  // namespace snug::solve
