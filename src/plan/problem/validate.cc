// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/numbers.h"
#include "base/row_form.h"
#include "base/stop.h"
#include "base/units.h"
#include "plan/problem/joint.h"
#include "plan/problem/validate_joint.h"
#include "plan/problem/validate_variants.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

constexpr size_t kMaxViolations = 20;

[[noreturn]] void reject(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::invalid_graph, where, message);
}

void validate_bytes(const Problem& problem, const std::string& where, int64_t bytes) {
  if (bytes < 0) reject(where, "has a negative size of " + std::to_string(bytes) + " bytes");
  if (bytes % problem.alignment != 0) {
    reject(where, "has " + std::to_string(bytes) + " bytes, not a multiple of the alignment " +
                      std::to_string(problem.alignment));
  }
}

// `listed_in` is by storage: the list that it was in last.
void validate_ids(const Problem& problem, const Op& op, const std::vector<StorageId>& ids,
                  const char* role, IdVector<StorageId, const void*>& listed_in) {
  for (const StorageId id : ids) {
    if (!problem.storages.has(id)) {
      reject(op.name, std::string(role) + " " + to_string(id) + " is not a storage");
    }
    if (std::exchange(listed_in[id], &ids) == &ids) {
      reject(op.name, std::string(role) + " '" + problem.storages[id].name + "' is listed twice");
    }
  }
}

// An output takes the place of an input, each at most once, both in the arena.
void validate_reuses(const Problem& problem, const Op& op) {
  std::set<StorageId> seen;
  for (const auto& [output, input] : op.reuses) {
    const bool is_output = std::count(op.outputs.begin(), op.outputs.end(), output) == 1;
    const bool is_input = std::count(op.inputs.begin(), op.inputs.end(), input) == 1;
    if (!is_output || !is_input)
      reject(op.name, "reuses something else than an input for an output");
    for (const StorageId id : {output, input}) {
      const Storage& storage = problem.storages[id];
      if (storage.resident) reject(op.name, "reuses resident '" + storage.name + "'");
      if (!seen.insert(id).second) reject(op.name, "reuses '" + storage.name + "' twice");
    }
  }
}

void validate_fusion(const Problem& problem, const Op& op) {
  const Fusion& fusion = op.fusion;
  if (fusion.kind == 0) return;
  const auto is_resident = [&](StorageId id) { return problem.storages[id].resident; };
  if (!op.reuses.empty() || !std::all_of(op.outputs.begin(), op.outputs.end(), is_resident))
    reject(op.name, "makes something in the arena, so it cannot be fused");
  if (fusion.most < 1) reject(op.name, "is fused with less than one op");
  if (!std::isfinite(fusion.seconds) || fusion.seconds < 0)
    reject(op.name, "has no valid duration where it is fused");
  validate_bytes(problem, op.name + " (scratch, fused)", fusion.scratch_bytes);
}

void validate_rowwise(const Problem& problem, const Op& op) {
  const RowwiseForm& form = op.rowwise->form;
  if (!form.is_given()) return;
  if (form.inputs.size() != op.inputs.size() || form.outputs.size() != op.outputs.size())
    reject(op.name, "has another number of operands by rows");
  const auto check_bytes = [&](StorageId id, int64_t bytes) {
    if (bytes < 0 || bytes > problem.storages[id].bytes / form.grid.rows)
      reject(op.name, "has rows of '" + problem.storages[id].name + "' that are not in it");
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) check_bytes(op.inputs[i], form.inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    check_bytes(op.outputs[i], form.outputs[i]);
    if (problem.storages[op.outputs[i]].resident) reject(op.name, "writes resident rows");
  }
  if (form.grid.rows < 0 || form.grid.step < 1 || form.grid.grain < 1 ||
      form.grid.grain % form.grid.step != 0 || form.threads < 1)
    reject(op.name, "is cut into rows that cannot be");
  const double saved = op.rowwise->saved_seconds;
  if (!std::isfinite(saved) || saved < 0 || saved > op.seconds)
    reject(op.name, "saves a time that it does not take");
  const double apart = op.rowwise->apart_seconds;
  if (!std::isfinite(apart) || (apart != 0 && apart < op.seconds))
    reject(op.name, "takes less time where its nodes run by themselves");
  validate_bytes(problem, op.name + " (scratch, by rows)", form.scratch_bytes);
}

// One storage instance as the replay sees it.
struct Instance {
  StorageId storage;
  OpId scratch_of;  // else
  int32_t first = 0;
  int32_t last = 0;
  int64_t bytes = 0;
  int64_t offset = 0;
};

class PlanReplay {
 public:
  PlanReplay(const Problem& problem, std::vector<std::string>& violations)
      : problem_(problem), violations_(violations) {}

  void report(const std::string& text) {
    if (violations_.size() < kMaxViolations) violations_.push_back(text);
  }
  [[nodiscard]] const Storage& storage(StorageId id) const { return problem_.storages[id]; }
  [[nodiscard]] bool is_run(OpId id) const {
    return id != kNone && static_cast<size_t>(id.number()) < problem_.run_count();
  }

  // Every op runs; what may not be recomputed or writes resident storage runs exactly once.
  void check_counts(IndexSpan<const OpId> schedule) {
    IdVector<OpId, int64_t> counts(problem_.ops.size(), 0);
    for (const OpId run : schedule) ++counts[problem_.op_of(run)];
    for (const OpId id : problem_.ops.ids()) {
      const Op& op = problem_.ops[id];
      const int64_t runs = counts[id];
      bool once = !op.may_recompute;
      for (const StorageId output : op.outputs) once = once || storage(output).resident;
      if (runs == 0) report("op '" + op.name + "' never runs");
      if (once && runs > 1) {
        report("op '" + op.name + "' runs " + std::to_string(runs) + " times, but must run once");
      }
    }
  }

  // Every read sees a made storage, and resident storage in the version of the given order.
  void check_order(IndexSpan<const OpId> schedule) {
    const auto writers_before = [&](StorageId id, const auto& ops) {
      int64_t writers = 0;
      for (const OpId each : ops) {
        const auto& outputs = problem_.run(each).outputs;
        writers += std::count(outputs.begin(), outputs.end(), id);
      }
      return writers;
    };
    IdVector<StorageId, bool> is_written(problem_.storages.size(), false);
    for (const Op& op : problem_.ops) {
      for (const StorageId id : op.outputs) is_written[id] = true;
    }
    IdVector<StorageId, bool> is_made(problem_.storages.size(), false);
    for (size_t step = 0; step < schedule.size(); ++step) {
      const Op& op = problem_.run(schedule[step]);
      const OpId id = problem_.op_of(schedule[step]);
      const auto check_version = [&](StorageId seen) {
        if (!storage(seen).resident || !is_written[seen]) return;
        const auto expected = writers_before(seen, IdRange(OpId(0), id));
        const auto actual = writers_before(seen, schedule.first(step));
        if (expected != actual) {
          report("step " + std::to_string(step) + ": op '" + op.name + "' sees '" +
                 storage(seen).name + "' after " + std::to_string(actual) +
                 " writes, in the given order after " + std::to_string(expected));
        }
      };
      for (const StorageId input : op.inputs) {
        check_version(input);
        if (!storage(input).resident && !is_made[input]) {
          report("step " + std::to_string(step) + ": op '" + op.name + "' reads '" +
                 storage(input).name + "' before it is made");
        }
      }
      for (const StorageId output : op.outputs) {
        if (std::find(op.inputs.begin(), op.inputs.end(), output) == op.inputs.end()) {
          check_version(output);
        }
        is_made[output] = true;
      }
      for (const auto& [output, input] : op.reuses) is_made[input] = false;
    }
    for (const StorageId kept : problem_.keep) {
      if (!storage(kept).resident && !is_made[kept]) {
        report("'" + storage(kept).name + "' is to be kept but never made");
      }
    }
  }

  // Steps of one kernel are adjacent, of one kind and no more than that permits.
  void check_fused(const Plan& plan) {
    int32_t count = 1;
    for (size_t step = 0; step < plan.steps.size(); ++step) {
      const Step& each = plan.steps[step];
      if (each.fused == Fused::no) count = 1;
      if (each.fused == Fused::no && is_in_rows(plan, step + 1)) check_rows(plan, step);
      if (each.fused != Fused::rows && !is_in_rows(plan, step + 1) && each.saved_seconds != 0)
        report("step " + std::to_string(step) + " saves time by itself");
      if (each.fused != Fused::sums) continue;
      const Fusion& fusion = problem_.run(each.op).fusion;
      const bool is_alike = step > 0 && fusion.kind != 0 &&
                            problem_.run(plan.steps[step - 1].op).fusion.kind == fusion.kind;
      if (!is_alike || ++count > fusion.most) {
        report("step " + std::to_string(step) + ": op '" + problem_.run(each.op).name +
               "' cannot run in one kernel with the step before");
      } else if (each.scratch_offset != plan.steps[step - 1].scratch_offset) {
        report("step " + std::to_string(step) + " has another scratch than its kernel");
      }
    }
  }

  // The steps of a row program can be computed together, and what is never in memory is read by
  // them only.
  void check_rows(const Plan& plan, size_t first) {
    RowProgram program;
    IdVector<StorageId, bool> is_made(problem_.storages.size(), false);
    std::set<StorageId> inside;
    size_t step = first;
    for (; step == first || is_in_rows(plan, step); ++step) {
      const Step& each = plan.steps[step];
      const Op& op = problem_.run(each.op);
      const std::string place = "step " + std::to_string(step) + ": op '" + op.name + "' ";
      const RowwiseOp& rows = *op.rowwise;
      std::vector<int64_t> inputs;
      std::vector<int64_t> outputs;
      std::vector<std::pair<int64_t, int64_t>> reuses;
      for (const StorageId id : op.inputs) inputs.push_back(id.number());
      for (const StorageId id : op.outputs) {
        outputs.push_back(id.number());
        if (is_made[id]) report(place + "makes '" + storage(id).name + "' a second time");
        is_made[id] = true;
      }
      for (const auto& [output, input] : op.reuses)
        reuses.emplace_back(output.number(), input.number());
      if ((step > first && rows.has_head) || !program.add(rows.form, inputs, outputs, reuses))
        report(place + "cannot run in a row program with the steps before");
      if (each.scratch_offset != plan.steps[first].scratch_offset)
        report(place + "has another scratch than its row program");
      if (each.saved_seconds < 0 || each.saved_seconds > rows.saved_seconds * (1 + 1e-9))
        report(place + "saves more time than it can");
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (each.output_offsets[i] != kInsideOffset) continue;
        const bool may_be = i < rows.form.outputs.size() && rows.form.outputs[i] > 0 &&
                            !rows.has_head && !storage(op.outputs[i]).resident;
        if (!may_be) report(place + "has '" + storage(op.outputs[i]).name + "' in no memory");
        inside.insert(op.outputs[i]);
      }
      program_scratch_[first] += round_up(rows.form.scratch_bytes, problem_.alignment);
    }
    for (const StorageId id : inside)
      program_scratch_[first] += round_up(program.buffer_bytes(id.number()), problem_.alignment);
    const Op& head = problem_.run(plan.steps[first].op);
    if (head.rowwise->has_head)
      program_scratch_[first] = std::max(program_scratch_[first], head.scratch_bytes);
    // Behind the program nobody reads it before it is made again.
    for (; step < plan.steps.size() && !inside.empty(); ++step) {
      const Op& op = problem_.run(plan.steps[step].op);
      for (const StorageId id : op.inputs) {
        if (inside.erase(id) > 0)
          report("'" + storage(id).name + "' is read where it was in no memory");
      }
      for (const StorageId id : op.outputs) inside.erase(id);
    }
    for (const StorageId id : problem_.keep) {
      if (inside.contains(id)) report("'" + storage(id).name + "' is kept but in no memory");
    }
  }

  // Builds the instances from the steps' offsets; a read must name the offset of the newest
  // instance.
  std::vector<Instance> replay_offsets(const Plan& plan) {
    IndexVector<Instance> instances;
    IdVector<StorageId, int64_t> newest(problem_.storages.size(), -1);
    for (size_t step = 0; step < plan.steps.size(); ++step) {
      const Step& each = plan.steps[step];
      const Op& op = problem_.run(each.op);
      const auto now = static_cast<int32_t>(step);
      const int32_t end = last_of_kernel(plan, now);
      const bool is_program = is_in_rows(plan, step) || is_in_rows(plan, step + 1);
      const int32_t begin = is_program ? first_of_kernel(plan, now) : now;
      if (begin == now) root_of_.clear();
      const std::string place = "step " + std::to_string(step) + ": op '" + op.name + "' ";
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const StorageId id = op.inputs[i];
        if (storage(id).resident) {
          if (each.input_offsets[i] != kResidentOffset) report(place + "places a resident input");
          continue;
        }
        const int64_t found = newest[id];
        if (found < 0) continue;  // reported by check_order
        Instance& instance = instances[found];
        instance.last = end;
        const OpId maker = plan.steps[instance.first].op;
        if (!loss_step_ && op.phase == Phase::backward &&
            problem_.run(maker).phase == Phase::forward)
          loss_step_ = now;
        if (instance.offset != each.input_offsets[i]) {
          report(place + "reads '" + storage(id).name + "' at " +
                 std::to_string(each.input_offsets[i]) + ", but it lies at " +
                 std::to_string(instance.offset));
        }
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        const StorageId id = op.outputs[i];
        if (storage(id).resident) {
          if (each.output_offsets[i] != kResidentOffset) report(place + "places a resident output");
          continue;
        }
        newest[id] = static_cast<int64_t>(instances.size());
        const bool is_inside = each.output_offsets[i] == kInsideOffset;
        if (is_inside && !is_program) report(place + "has an output in no memory");
        instances.push_back({id, kNone, begin, is_program ? end : now,
                             is_inside ? 0 : storage(id).bytes, each.output_offsets[i]});
      }
      for (const auto& [output, input] : op.reuses) {
        int64_t found = newest[input];
        newest[input] = -1;
        if (found < 0) continue;
        // What was made in the program stands for what it would have been written over.
        if (is_program && instances[found].first == begin) {
          const auto root = root_of_.find(input);
          if (root == root_of_.end()) continue;
          found = root->second;
        }
        Instance& before = instances[found];
        const Instance& after = instances[newest[output]];
        if (after.offset == kInsideOffset) root_of_[output] = found;
        if (before.offset != after.offset) continue;  // both are there while the op runs
        before.last = begin - 1;
        if (loss_step_ == begin) taken_at_loss_ += before.bytes;
        if (before.bytes > after.bytes) {  // the op reads all of it
          tails_.push_back({kNone, each.op, begin, is_program ? end : now,
                            before.bytes - after.bytes, before.offset + after.bytes});
        }
      }
      const int64_t scratch = each.fused != Fused::no ? 0
                              : is_program            ? program_scratch_[step]
                              : end > now             ? op.fusion.scratch_bytes
                                                      : op.scratch_bytes;
      if (scratch > 0)
        instances.push_back({kNone, each.op, now, end, scratch, each.scratch_offset});
    }
    for (const StorageId kept : problem_.keep) {
      const int64_t found = newest[kept];
      if (found < 0) continue;
      instances[found].last = static_cast<int32_t>(plan.steps.size()) - 1;
    }
    return instances;
  }

  void check_placement(IndexVector<Instance> instances) {
    instances.insert(instances.end(), tails_.begin(), tails_.end());
    const auto name = [&](const Instance& each) {
      return each.storage == kNone
                 ? "scratch of step " + std::to_string(each.first)
                 : "'" + storage(each.storage).name + "' of step " + std::to_string(each.first);
    };
    for (size_t i = 0; i < instances.size(); ++i) {
      const Instance& a = instances[i];
      if (a.offset == kInsideOffset && a.bytes == 0) continue;
      if (a.offset < 0 || a.offset % problem_.alignment != 0) {
        report(name(a) + " lies at the bad offset " + std::to_string(a.offset));
      }
      for (size_t j = i + 1; j < instances.size(); ++j) {
        const Instance& b = instances[j];
        const bool in_time = a.first <= b.last && b.first <= a.last;
        const bool in_bytes = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        if (in_time && in_bytes && a.bytes > 0 && b.bytes > 0)
          report(name(a) + " overlaps " + name(b));
      }
    }
  }

  void check_numbers(const Plan& plan, const IndexVector<Instance>& instances) {
    int64_t arena = 0;
    IndexVector<int64_t> in_use(plan.steps.size(), 0);
    for (const Instance& each : instances) {
      arena = std::max(arena, each.bytes > 0 ? each.offset + each.bytes : 0);
      for (int32_t step = each.first; step <= each.last; ++step) {
        in_use[step] += each.bytes;
      }
    }
    for (const Instance& tail : tails_) {
      for (int32_t step = tail.first; step <= tail.last; ++step) in_use[step] += tail.bytes;
    }
    const int64_t load = in_use.empty() ? 0 : *std::max_element(in_use.begin(), in_use.end());
    const auto claim = [&](const char* what, int64_t claimed, int64_t actual) {
      if (claimed != actual) {
        report(std::string(what) + " is " + std::to_string(actual) + ", the plan says " +
               std::to_string(claimed));
      }
    };
    claim("arena_bytes", plan.arena_bytes, arena);
    claim("load_bytes", plan.load_bytes, load);
    if (!in_use.empty()) {
      const bool in_range =
          plan.peak_step >= 0 && plan.peak_step < static_cast<int32_t>(in_use.size());
      if (!in_range || in_use[plan.peak_step] != load) {
        report("peak_step " + std::to_string(plan.peak_step) + " does not reach the load");
      }
    }
    double seconds = 0;
    for (const Step& step : plan.steps) seconds += seconds_of(problem_, step);
    int64_t kept = taken_at_loss_;
    for (const Instance& each : instances) {
      if (loss_step_ && each.first < *loss_step_ && each.last >= *loss_step_) kept += each.bytes;
    }
    seconds += static_cast<double>(kept) * problem_.kept_seconds_per_byte;
    if (std::fabs(seconds - plan.seconds) > 1e-9 * std::max(1.0, seconds)) {
      report("seconds is " + number_text(seconds) + ", the plan says " + number_text(plan.seconds));
    }
  }

  // The listed ranges are exactly the instances of the replay.
  void check_ranges(const Plan& plan, const IndexVector<Instance>& instances) {
    if (plan.live_ranges.size() != instances.size() || plan.offsets.size() != instances.size()) {
      report("the plan lists " + std::to_string(plan.live_ranges.size()) + " ranges and " +
             std::to_string(plan.offsets.size()) + " offsets for " +
             std::to_string(instances.size()) + " instances");
      return;
    }
    using Row = std::tuple<StorageId, OpId, int32_t, int32_t, int64_t, int64_t>;
    std::multiset<Row> listed;
    std::multiset<Row> replayed;
    for (size_t i = 0; i < instances.size(); ++i) {
      const LiveRange& range = plan.live_ranges[i];
      listed.insert(
          {range.storage, range.scratch_of, range.first, range.last, range.bytes, plan.offsets[i]});
      const Instance& each = instances[i];
      replayed.insert(
          {each.storage, each.scratch_of, each.first, each.last, each.bytes, each.offset});
    }
    if (listed != replayed) report("live_ranges and offsets differ from the steps");
  }

 private:
  static int32_t last_of_kernel(const Plan& plan, int32_t step) {
    const auto steps = static_cast<int32_t>(plan.steps.size());
    while (step + 1 < steps && plan.steps[step + 1].fused != Fused::no) ++step;
    return step;
  }
  static int32_t first_of_kernel(const Plan& plan, int32_t step) {
    while (step > 0 && plan.steps[step].fused != Fused::no) --step;
    return step;
  }
  static bool is_in_rows(const Plan& plan, size_t step) {
    return step < plan.steps.size() && plan.steps[step].fused == Fused::rows;
  }

  const Problem& problem_;
  std::vector<std::string>& violations_;
  std::optional<int32_t> loss_step_;  // the first backward one that reads what a forward one made
  int64_t taken_at_loss_ = 0;         // bytes that it overwrites
  std::map<size_t, int64_t> program_scratch_;  // by the first step of a row program
  std::map<StorageId, int64_t> root_of_;       // of what is in no memory: an instance before
  std::vector<Instance> tails_;  // what overwritten inputs have beyond their outputs, at that step
};

}  // namespace

void validate(const Problem& problem) {
  if (problem.alignment <= 0) reject("problem", "alignment must be positive");
  if (!std::isfinite(problem.kept_seconds_per_byte) || problem.kept_seconds_per_byte < 0)
    reject("problem", "kept_seconds_per_byte is no duration");
  validate_views(problem);
  for (const Storage& storage : problem.storages) {
    if (!storage.resident) validate_bytes(problem, storage.name, storage.bytes);
    if (storage.bytes < 0) reject(storage.name, "has a negative size");
  }
  IdVector<StorageId, bool> is_made(problem.storages.size(), false);
  IdVector<StorageId, const Op*> overwritten_by(problem.storages.size(), nullptr);
  IdVector<StorageId, const void*> listed_in(problem.storages.size(), nullptr);
  const VariantCheck variants(problem);
  const auto validate_run = [&](const Op& op) {
    validate_bytes(problem, op.name + " (scratch)", op.scratch_bytes);
    if (!std::isfinite(op.seconds) || op.seconds < 0) reject(op.name, "has no valid duration");
    for (const StorageId id : op.inputs) {
      const Storage& storage = problem.storages[id];
      if (!storage.resident && !is_made[id]) {
        reject(op.name, "reads '" + storage.name + "' before any op has made it");
      }
      if (const Op* other = overwritten_by[root_of(problem, id)]) {
        reject(op.name, "reads '" + storage.name + "', in whose place op '" + other->name +
                            "' has already written");
      }
    }
  };
  for (const OpId id_of_op : problem.ops.ids()) {
    stop_point();
    const Op& op = problem.ops[id_of_op];
    validate_ids(problem, op, op.inputs, "input", listed_in);
    validate_ids(problem, op, op.outputs, "output", listed_in);
    validate_reuses(problem, op);
    validate_joint_op(problem, op);
    validate_fusion(problem, op);
    validate_rowwise(problem, op);
    validate_run(op);
    for (const Op* variant : variants.of(id_of_op)) {
      validate_ids(problem, *variant, variant->inputs, "input", listed_in);
      validate_run(*variant);
      variants.validate(*variant);
    }
    for (const auto& [output, input] : op.reuses) overwritten_by[input] = &op;
    for (const StorageId id : op.outputs) {
      const Storage& storage = problem.storages[id];
      if (storage.resident) continue;
      if (is_made[id]) {
        reject(op.name, "makes '" + storage.name + "', which another op has made");
      }
      is_made[id] = true;
    }
  }
  for (const StorageId id : problem.keep) {
    if (!problem.storages.has(id)) {
      reject("keep", to_string(id) + " is not a storage");
    }
    const Storage& storage = problem.storages[id];
    if (!storage.resident && !is_made[id]) {
      reject("keep", "'" + storage.name + "' is made by no op");
    }
    if (const Op* other = overwritten_by[root_of(problem, id)]) {
      reject("keep", "op '" + other->name + "' writes in the place of '" + storage.name + "'");
    }
  }
  validate_boundary(problem);
}

std::vector<std::string> check_schedule(const Problem& problem, IndexSpan<const OpId> schedule) {
  SNUG_CHECK(is_plain(problem), "a joint graph is judged by snug solve check");
  std::vector<std::string> violations;
  PlanReplay replay(problem, violations);
  for (const OpId id : schedule) {
    if (!replay.is_run(id)) {
      replay.report(to_string(id) + " is not an op");
      return violations;
    }
  }
  replay.check_counts(schedule);
  replay.check_order(schedule);
  return violations;
}

std::vector<std::string> check(const Problem& problem, const Plan& plan) {
  std::vector<std::string> violations;
  PlanReplay replay(problem, violations);
  IndexVector<OpId> schedule;
  for (const Step& step : plan.steps) {
    schedule.push_back(step.op);
    if (!replay.is_run(step.op)) {
      replay.report(to_string(step.op) + " is not an op");
      return violations;
    }
    const Op& op = problem.run(step.op);
    if (step.input_offsets.size() != op.inputs.size() ||
        step.output_offsets.size() != op.outputs.size()) {
      replay.report("op " + to_string(step.op) + " '" + op.name + "' has offsets for " +
                    std::to_string(step.input_offsets.size()) + " inputs and " +
                    std::to_string(step.output_offsets.size()) + " outputs instead of " +
                    std::to_string(op.inputs.size()) + " and " + std::to_string(op.outputs.size()));
      return violations;
    }
  }
  violations = check_schedule(problem, schedule);
  replay.check_fused(plan);
  const IndexVector<Instance> instances = replay.replay_offsets(plan);
  replay.check_placement(instances);
  replay.check_ranges(plan, instances);
  replay.check_numbers(plan, instances);
  return violations;
}

}  // namespace snug::plan
