// SPDX-License-Identifier: Apache-2.0
#include "solve/remat_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "solve/remat_bytes.h"

namespace snug::solve {
namespace {

using plan::Op;
using plan::StorageId;

constexpr size_t kMaxViolations = 20;

class Replayer {
 public:
  Replayer(const plan::Problem& problem, const ScheduleFile& schedule)
      : problem_(problem), given_boundary_(schedule.boundary_step) {
    std::map<std::string, const Op*> by_name;
    for (const Op& op : problem.ops) by_name[op.name] = &op;
    for (const Op& variant : problem.variants) by_name[variant.name] = &variant;
    for (size_t step = 0; step < schedule.ops.size(); ++step) {
      const auto found = by_name.find(schedule.ops[step]);
      if (found == by_name.end()) {
        violation(step, "there is no op \"" + schedule.ops[step] + "\"");
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
    check_listed_order();
    check_reads();
    int64_t boundary = 0;
    if (problem_.boundary) {
      boundary = given_boundary_ ? *given_boundary_ : best_boundary();
      check_boundary(static_cast<size_t>(boundary));
    } else if (given_boundary_) {
      violation(static_cast<size_t>(*given_boundary_),
                "the schedule says that the boundary lies here, and the problem has none");
    }
    if (!result_.violations.empty()) return result_;
    CountedBytes counted = ByteCount(problem_, steps_).count(boundary);
    result_.peak_bytes = counted.peak_bytes;
    result_.peak_op = std::move(counted.peak_op);
    result_.step_bytes = std::move(counted.step_bytes);
    result_.parts = std::move(counted.parts);
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
  [[nodiscard]] bool is_view(StorageId id) const { return problem_.storages[id].view_of != kNone; }
  // The storage that holds the bytes of a view.
  [[nodiscard]] StorageId holder(StorageId id) const {
    while (is_view(id)) id = problem_.storages[id].view_of;
    return id;
  }
  // A run of a variant is one of its op.
  [[nodiscard]] const Op* op_of(const Op* run) const {
    return run->variant_of == kNone ? run : &problem_.ops[run->variant_of];
  }
  static bool is_of_backward_part(const Op& op) {
    return op.phase == Phase::backward || op.phase == Phase::update ||
           op.part == plan::GraphPart::backward;
  }

  [[nodiscard]] bool makes_only_views(const Op& op) const {
    return !op.outputs.empty() &&
           std::ranges::all_of(op.outputs, [&](StorageId id) { return is_view(id); });
  }
  [[nodiscard]] std::set<StorageId> read_by_somebody() const {
    std::set<StorageId> read(problem_.keep.begin(), problem_.keep.end());
    for (const Op& each : problem_.ops) read.insert(each.inputs.begin(), each.inputs.end());
    for (const Op& each : problem_.variants) read.insert(each.inputs.begin(), each.inputs.end());
    if (problem_.boundary)
      read.insert(problem_.boundary->forward_outputs.begin(),
                  problem_.boundary->forward_outputs.end());
    return read;
  }

  // Every op runs; one that may not run again, or writes resident storage, runs once.
  void check_counts() {
    const std::set<StorageId> read = read_by_somebody();
    // What makes only views that somebody reads runs as often as it is needed.
    const auto runs_at_need = [&](const Op& op) {
      return makes_only_views(op) &&
             std::ranges::any_of(op.outputs, [&](StorageId id) { return read.contains(id); });
    };
    std::map<const Op*, int64_t> runs;
    std::map<const Op*, int64_t> runs_of_way;
    for (const Op* op : steps_) {
      ++runs[op_of(op)];
      ++runs_of_way[op];
    }
    const auto add_cost = [&](const Op& way) {
      result_.cost += static_cast<double>(runs_of_way[&way]) * way.seconds;
    };
    for (const Op& op : problem_.ops) {
      add_cost(op);
      const bool once = op.is_ordered || !op.may_recompute ||
                        std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](StorageId id) { return is_resident(id); });
      const int64_t count = runs[&op];
      if (count == 0 && !runs_at_need(op))
        violation(steps_.size(), "op \"" + op.name + "\" has never run");
      if (once && count > 1) {
        violation(steps_.size(), "op \"" + op.name + "\" has run " + std::to_string(count) +
                                     " times and may run once");
      }
    }
    for (const Op& variant : problem_.variants) add_cost(variant);
  }

  // What a read of a resident storage sees: the ops that have written it.
  [[nodiscard]] std::set<const Op*> writers_in(const std::vector<const Op*>& ops, StorageId id,
                                               size_t before) const {
    std::set<const Op*> writers;
    for (size_t step = 0; step < before; ++step) {
      if (has(ops[step]->outputs, id)) writers.insert(op_of(ops[step]));
    }
    return writers;
  }

  void check_listed_order() {
    const Op* last = nullptr;
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Op* op = steps_[step];
      if (!op->is_ordered) continue;
      if (last != nullptr && op_of(op) < op_of(last)) {
        violation(step, "op \"" + op->name + "\" runs behind op \"" + last->name +
                            "\"; both are ordered, and it is listed in front of that one");
      }
      last = op;
    }
  }

  // Whether it can be read: made, and if it is a view, of what is there now.
  [[nodiscard]] bool is_there(StorageId id) const {
    const StorageId root = holder(id);
    if (!is_resident(root) && !present_.contains(root)) return false;
    if (!is_view(id)) return true;
    const auto found = made_of_.find(id);
    return found != made_of_.end() && found->second == times_made(root);
  }
  [[nodiscard]] int64_t times_made(StorageId root) const {
    const auto found = times_made_.find(root);
    return found == times_made_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::string missing(StorageId id) const {
    const StorageId root = holder(id);
    if (is_resident(root)) return "\"" + name(id) + "\", a view that no op has made";
    if (id == root || !present_.contains(root)) return "\"" + name(id) + "\", which is not there";
    return "\"" + name(id) + "\", a view that was not made of what is now in \"" + name(root) +
           "\"";
  }

  void run_op(const Op& op) {
    for (const auto& [output, input] : op.reuses) present_.erase(input);
    for (const StorageId id : op.outputs) {
      if (is_view(id) || is_resident(id)) continue;
      present_.insert(id);
      ++times_made_[id];
    }
    for (const StorageId id : op.outputs) {
      if (is_view(id)) made_of_[id] = times_made(holder(id));
    }
  }

  // An op that makes only views looks at no values.
  void check_versions(size_t step, const Op& op, const std::vector<const Op*>& listed,
                      const std::set<StorageId>& written) {
    if (makes_only_views(op)) return;
    std::set<StorageId> seen(op.outputs.begin(), op.outputs.end());
    for (const StorageId id : op.inputs) seen.insert(holder(id));
    for (const StorageId id : seen) {
      if (!written.contains(id)) continue;
      const auto position = static_cast<size_t>(op_of(&op) - problem_.ops.data());
      if (writers_in(steps_, id, step) != writers_in(listed, id, position)) {
        violation(step, "op \"" + op.name + "\" sees \"" + name(id) +
                            "\" after other writes than in the listed order");
      }
    }
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
    note_forward_outputs();
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Op& op = *steps_[step];
      for (const StorageId id : op.inputs) {
        if (!is_there(id)) violation(step, "op \"" + op.name + "\" reads " + missing(id));
      }
      check_versions(step, op, listed, written);
      run_op(op);
      note_forward_outputs();
    }
    for (const StorageId id : problem_.keep) {
      if (!is_there(id))
        violation(steps_.size(), "\"" + name(id) + "\" is to be kept and is not there at the end");
    }
  }

  // What a boundary here would miss.
  void note_forward_outputs() {
    if (!problem_.boundary) return;
    StorageId& lacking = missing_outputs_.emplace_back();
    for (const StorageId id : problem_.boundary->forward_outputs) {
      if (!is_there(id)) lacking = id;
    }
  }

  void check_boundary(size_t boundary) {
    for (size_t step = 0; step < steps_.size(); ++step) {
      const Op& op = *steps_[step];
      if (step < boundary && is_of_backward_part(op))
        violation(step, "op \"" + op.name +
                            "\" runs in the forward part; the boundary is at step " +
                            std::to_string(boundary));
      if (step >= boundary && op.part == plan::GraphPart::forward)
        violation(step, "op \"" + op.name + "\" is of the forward part; the boundary is at step " +
                            std::to_string(boundary));
    }
    if (const StorageId lacking = missing_outputs_[boundary]; lacking != kNone)
      violation(boundary, "the boundary is here, and the forward output \"" + name(lacking) +
                              "\" is not in memory");
  }

  // The place with the smallest peak, the first of such; where none is permitted, the last one in
  // front of the backward part.
  [[nodiscard]] int64_t best_boundary() const {
    const size_t end = steps_.size();
    size_t first = 0;
    size_t last = end;
    for (size_t step = 0; step < end; ++step) {
      if (steps_[step]->part == plan::GraphPart::forward) first = step + 1;
      if (last == end && is_of_backward_part(*steps_[step])) last = step;
    }
    const ByteCount bytes(problem_, steps_);
    auto best = static_cast<int64_t>(last);
    int64_t smallest = INT64_MAX;
    for (size_t step = first; step <= last; ++step) {
      if (missing_outputs_[step] != kNone) continue;
      const int64_t peak = bytes.count(static_cast<int64_t>(step)).peak_bytes;
      if (peak >= smallest) continue;
      smallest = peak;
      best = static_cast<int64_t>(step);
    }
    return best;
  }

  const plan::Problem& problem_;
  std::optional<int64_t> given_boundary_;
  std::vector<const Op*> steps_;
  std::set<StorageId> present_;
  std::map<StorageId, int64_t> times_made_;
  std::map<StorageId, int64_t> made_of_;    // by view: how often its base was made then
  std::vector<StorageId> missing_outputs_;  // by step; none: all are there in front of it
  RematCheck result_;
};

}  // namespace

RematCheck replay(const plan::Problem& problem, const ScheduleFile& schedule) {
  return Replayer(problem, schedule).run();
}

}  // namespace snug::solve
