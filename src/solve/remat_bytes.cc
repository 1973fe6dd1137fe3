// SPDX-License-Identifier: Apache-2.0
#include "solve/remat_bytes.h"

#include <algorithm>
#include <map>

namespace snug::solve {

using plan::Op;
using plan::StorageId;

ByteCount::ByteCount(const plan::Problem& problem, const std::vector<const Op*>& steps)
    : problem_(problem), steps_(steps) {
  std::map<StorageId, size_t> newest;
  for (size_t step = 0; step < steps.size(); ++step) {
    const auto now = static_cast<int64_t>(step);
    for (const StorageId input : steps[step]->inputs) {
      const auto found = newest.find(holder(input));
      if (found != newest.end()) made_[found->second].last = now;
    }
    for (const StorageId output : steps[step]->outputs) {
      if (holder(output) != output || problem.storages[output].resident) continue;
      newest[output] = made_.size();
      made_.push_back({output, now, now});
    }
  }
  for (const StorageId kept : problem.keep) {
    const auto found = newest.find(holder(kept));
    if (found != newest.end()) made_[found->second].last = static_cast<int64_t>(steps.size()) - 1;
  }
}

// The storage that holds the bytes of a view.
StorageId ByteCount::holder(StorageId id) const {
  while (problem_.storages[id].view_of != kNone) id = problem_.storages[id].view_of;
  return id;
}

// Which of what is made is a forward output, or holds one.
std::vector<bool> ByteCount::outputs_at(int64_t boundary_step) const {
  std::map<StorageId, size_t> newest;
  for (size_t i = 0; i < made_.size(); ++i) {
    if (made_[i].first < boundary_step) newest[made_[i].id] = i;
  }
  std::vector<bool> is_output(made_.size(), false);
  for (const StorageId id : problem_.boundary->forward_outputs) {
    const auto found = newest.find(holder(id));
    if (found != newest.end()) is_output[found->second] = true;
  }
  return is_output;
}

CountedBytes ByteCount::count(int64_t boundary_step) const {
  CountedBytes result;
  const auto end = static_cast<int64_t>(steps_.size());
  std::vector<int64_t> change(steps_.size() + 1, 0);
  int64_t between = 0;
  std::vector<bool> is_output(made_.size(), false);
  if (problem_.boundary) {
    result.parts.emplace().boundary_step = boundary_step;
    is_output = outputs_at(boundary_step);
    between = problem_.boundary->between_bytes;
  }
  for (size_t i = 0; i < made_.size(); ++i) {
    const Made& made = made_[i];
    const int64_t last = is_output[i] ? std::max(made.last, boundary_step - 1) : made.last;
    change[static_cast<size_t>(made.first)] += bytes_of(made);
    change[static_cast<size_t>(last + 1)] -= bytes_of(made);
    if (!result.parts) continue;
    const bool crosses = made.first < boundary_step && last >= boundary_step;
    if (crosses || is_output[i]) between += bytes_of(made);
    if (!crosses) continue;
    result.parts->crossing.push_back(problem_.storages[made.id].name);
    result.parts->crossing_bytes += bytes_of(made);
  }
  int64_t forward = problem_.boundary ? problem_.boundary->forward_base_bytes : 0;
  int64_t backward = problem_.boundary ? problem_.boundary->backward_base_bytes : 0;
  const int64_t bases[] = {forward, backward};
  result.peak_bytes = std::max({forward, backward, between});
  result.step_bytes.reserve(steps_.size());
  bool is_at_op = false;
  int64_t live = 0;
  for (int64_t step = 0; step < end; ++step) {
    const Op& op = *steps_[static_cast<size_t>(step)];
    live += change[static_cast<size_t>(step)];
    const bool is_forward = problem_.boundary && step < boundary_step;
    int64_t bytes = live + op.scratch_bytes + bases[is_forward ? 0 : 1];
    for (const auto& [output, input] : op.reuses)
      bytes -= std::min(problem_.storages[output].bytes, problem_.storages[input].bytes);
    result.step_bytes.push_back(bytes);
    int64_t& of_part = is_forward ? forward : backward;
    of_part = std::max(of_part, bytes);
    if (bytes < result.peak_bytes || (bytes == result.peak_bytes && is_at_op)) continue;
    result.peak_bytes = bytes;
    result.peak_op = op.name;
    is_at_op = true;
  }
  if (result.parts) {
    result.parts->forward_peak_bytes = forward;
    result.parts->backward_peak_bytes = backward;
  }
  return result;
}

}  // namespace snug::solve
