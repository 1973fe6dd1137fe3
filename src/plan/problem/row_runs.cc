// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/row_runs.h"

#include <algorithm>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/units.h"

namespace snug::plan {
namespace {

void set_keys(std::vector<int64_t>& keys, const std::vector<StorageId>& storages) {
  keys.clear();
  for (const StorageId id : storages) keys.push_back(id.number());
}

bool is_listed(const std::vector<StorageId>& list, StorageId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

LastReads::LastReads(const LivenessTable& table, IndexSpan<const OpId> schedule) {
  const auto steps = static_cast<int32_t>(schedule.size());
  first_.reserve(schedule.size());
  last_.reserve(schedule.size() * 2);
  IdVector<StorageId, int32_t> newest(table.problem().storages.size(), -1);
  for (int32_t step = 0; step < steps; ++step) {
    const LivenessTable::OpEntry& op = table.op(schedule[step]);
    for (const StorageId input : op.inputs) {
      if (newest[input] >= 0) last_[newest[input]] = step;
    }
    first_.push_back(static_cast<int32_t>(last_.size()));
    for (const StorageId output : op.outputs) {
      newest[output] = static_cast<int32_t>(last_.size());
      last_.push_back(step);
    }
  }
  for (const StorageId kept : table.problem().keep) {
    if (newest[kept] >= 0) last_[newest[kept]] = steps;
  }
}

void RowRunBuilder::begin_at(int32_t first) {
  first_ = first;
  steps_ = 0;
  program_.clear();
  made_.clear();
}

RowJoin RowRunBuilder::join() {
  const int32_t step = first_ + steps_;
  if (std::cmp_greater_equal(step, schedule_.size())) return RowJoin::is_not_by_rows;
  const Op& op = op_at(step);
  const RowwiseForm& form = op.rowwise->form;
  if (!form.is_given()) return RowJoin::is_not_by_rows;
  if (steps_ > 0 && op.rowwise->has_head) return RowJoin::has_head;
  bool is_joined = steps_ == 0;
  for (size_t i = 0; i < op.inputs.size() && !is_joined; ++i)
    is_joined = form.inputs[i] > 0 && program_.row_bytes(op.inputs[i].number()) > 0;
  if (!is_joined) return RowJoin::shares_nothing;
  // Every storage has one instance in a program.
  for (const StorageId output : op.outputs) {
    if (is_listed(made_, output) || (steps_ > 0 && program_.row_bytes(output.number()) > 0))
      return RowJoin::is_cut_apart;
  }
  set_keys(input_keys_, op.inputs);
  set_keys(output_keys_, op.outputs);
  reused_keys_.clear();
  for (const auto& [output, input] : op.reuses)
    reused_keys_.emplace_back(output.number(), input.number());
  if (!program_.add(form, input_keys_, output_keys_, reused_keys_)) return RowJoin::is_cut_apart;
  made_.insert(made_.end(), op.outputs.begin(), op.outputs.end());
  ++steps_;
  return RowJoin::joins;
}

RowRun RowRunBuilder::run() const {
  RowRun run{.first = first_};
  const int32_t last = first_ + steps_ - 1;
  const int64_t piece_rows = program_.piece_rows();
  std::vector<StorageId> near;  // in a cache: made or read before in the program
  std::vector<StorageId> inside;
  // What is inside, and what it would be written over.
  std::vector<std::pair<StorageId, StorageId>> places_inside;
  near.reserve(4 * static_cast<size_t>(steps_));
  inside.reserve(made_.size());
  run.made_inside.reserve(made_.size());
  run.first_output.reserve(static_cast<size_t>(steps_));
  run.saved_seconds.reserve(static_cast<size_t>(steps_));
  run.saved_bytes.reserve(static_cast<size_t>(steps_));
  for (int32_t step = first_; step <= last; ++step) {
    const Op& op = op_at(step);
    const RowwiseForm& form = op.rowwise->form;
    int64_t bytes = 0;
    int64_t saved = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      bytes += form.inputs[i];
      if (form.inputs[i] == 0) continue;
      if (is_listed(near, op.inputs[i])) saved += form.inputs[i];
      near.push_back(op.inputs[i]);
    }
    run.first_output.push_back(static_cast<int32_t>(run.made_inside.size()));
    size_t in_arena = 0;  // outputs so far
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      bytes += form.outputs[i];
      const bool is_resident = problem_.storages[op.outputs[i]].resident;
      const bool is_inside = !is_resident && reads_.of(step, in_arena++) <= last &&
                             form.outputs[i] > 0 && !op.rowwise->has_head;
      run.made_inside.push_back(is_inside);
      if (form.outputs[i] > 0) near.push_back(op.outputs[i]);
      if (!is_inside) continue;
      saved += form.outputs[i];
      inside.push_back(op.outputs[i]);
      run.scratch_bytes +=
          round_up(program_.buffer_bytes(op.outputs[i].number(), piece_rows), problem_.alignment);
    }
    for (const auto& [output, input] : op.reuses) {
      StorageId before = input;
      if (is_listed(made_, input)) {
        const auto found = std::find_if(places_inside.rbegin(), places_inside.rend(),
                                        [&](const auto& each) { return each.first == before; });
        if (found == places_inside.rend()) continue;
        before = found->second;
      }
      if (is_listed(inside, output)) {
        places_inside.emplace_back(output, before);
      } else {
        run.places.emplace_back(output, before);
      }
    }
    run.scratch_bytes += round_up(form.scratch_bytes, problem_.alignment);
    run.saved_bytes.push_back(saved * form.grid.rows);
    run.saved_seconds.push_back(bytes == 0
                                    ? 0
                                    : op.rowwise->saved_seconds * static_cast<double>(saved) /
                                          static_cast<double>(bytes));
  }
  // The kernel before the rows has run by then.
  run.scratch_bytes = std::max(run.scratch_bytes,
                               op_at(first_).rowwise->has_head ? op_at(first_).scratch_bytes : 0);
  return run;
}

namespace {

// Calls take(run) for each; false where a step does not join.
template <class Take>
bool for_each_run(const LivenessTable& table, IndexSpan<const OpId> schedule,
                  const FusedSteps& fused, const Take& take) {
  if (std::find(fused.begin(), fused.end(), Fused::rows) == fused.end()) return true;
  const LastReads reads(table, schedule);
  const auto is_in_run = [&](size_t step) {
    return step < fused.size() && fused[step] == Fused::rows;
  };
  if (is_in_run(0)) return false;
  RowRunBuilder builder(table.problem(), schedule, reads);
  for (size_t step = 1; step < fused.size(); ++step) {
    if (!is_in_run(step)) continue;
    builder.begin_at(static_cast<int32_t>(step) - 1);
    if (!builder.add()) return false;
    for (; is_in_run(step); ++step) {
      if (!builder.add()) return false;
    }
    take(builder.run());
  }
  return true;
}

}  // namespace

bool are_row_runs(const LivenessTable& table, IndexSpan<const OpId> schedule,
                  const FusedSteps& fused) {
  return for_each_run(table, schedule, fused, [](const RowRun&) {});
}

std::vector<RowRun> row_runs(const LivenessTable& table, IndexSpan<const OpId> schedule,
                             const FusedSteps& fused) {
  std::vector<RowRun> runs;
  const bool are_runs =
      for_each_run(table, schedule, fused, [&](RowRun run) { runs.push_back(std::move(run)); });
  SNUG_CHECK(are_runs, "a step that does not join its row program");
  return runs;
}

}  // namespace snug::plan
