// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/stage_graph.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/index_vector.h"

namespace snug::plan {

StageGraph::StageGraph(const ProblemIndex& index, IndexSpan<const OpId> order)
    : op_count(index.op_count()),
      op_ids(order.begin(), order.end()),
      stage_of(index.op_count(), 0) {
  for (int32_t t = 0; t < op_count; ++t) stage_of[order[t]] = t;
  IdVector<StorageId, ArenaId> compact(index.storage_count());
  for (int32_t t = 0; t < op_count; ++t) {
    for (const StorageId id : index.op(order[t]).outputs) {
      if (index.storage(id).resident) continue;
      compact[id] = storage_ids.add(id);
      bytes.push_back(index.storage(id).bytes);
      producer.push_back(t);
    }
  }
  const auto arena_ids = [&](const std::vector<StorageId>& ids) {
    std::vector<ArenaId> result;
    for (const StorageId id : ids) {
      if (!index.storage(id).resident) result.push_back(compact[id]);
    }
    return result;
  };
  // How many writers of each resident storage have run; an op may run again while its version is
  // the present one.
  IdVector<StorageId, std::vector<int32_t>> writers(index.storage_count());
  for (int32_t t = 0; t < op_count; ++t) {
    for (const StorageId id : index.op(order[t]).outputs) {
      if (index.storage(id).resident) writers[id].push_back(t);
    }
  }
  IdVector<ArenaId, std::vector<int32_t>> readers_of(bytes.size());
  for (int32_t t = 0; t < op_count; ++t) {
    const OpId id = order[t];
    const Op& op = index.op(id);
    inputs.add_row(arena_ids(op.inputs));
    outputs.add_row(arena_ids(op.outputs));
    for (const ArenaId input : inputs[t]) readers_of[input].push_back(t);
    int64_t shared = 0;
    std::vector<ArenaId> taken;
    for (const auto& [output, input] : op.reuses) {
      shared += std::min(index.storage(output).bytes, index.storage(input).bytes);
      taken.push_back(compact[input]);
    }
    overwritten.add_row(taken);
    fixed_bytes.push_back(op.scratch_bytes - shared);
    cost.push_back(op.seconds);
    base_cost += op.seconds;
    int32_t last = op_count;
    if (index.runs_once[id]) {
      last = t;
    } else {
      for (const StorageId input : op.inputs) {
        const auto& list = writers[input];
        const auto next = std::upper_bound(list.begin(), list.end(), t);
        if (next != list.end()) last = std::min(last, *next);
      }
    }
    last_stage.push_back(last);
  }
  std::vector<StorageId> kept(index.problem.keep);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  inputs.add_row(arena_ids(kept));
  outputs.add_row({});
  overwritten.add_row({});
  fixed_bytes.push_back(0);
  for (const ArenaId input : inputs[op_count]) readers_of[input].push_back(op_count);
  for (const auto& row : readers_of) readers.add_row(row);
  // What reads a storage that was overwritten meanwhile needs it made again first.
  IdVector<ArenaId, int32_t> overwriter(bytes.size(), -1);
  for (int32_t t = 0; t < op_count; ++t) {
    for (const ArenaId gone : overwritten[t]) overwriter[gone] = t;
  }
  for (int32_t t = 0; t < op_count; ++t) {
    for (const ArenaId input : inputs[t]) {
      const int32_t by = overwriter[input];
      if (by < 0) continue;
      const int32_t made = last_stage[producer[input]];
      int32_t& last = last_stage[t];
      last = std::min(last, std::max(by, made));
    }
  }
}

WorkingSetBound pinned_order_bound(const StageGraph& graph) {
  // Stages through whose own op a storage lives in every schedule; none where first > last.
  struct Span {
    int32_t first;
    int32_t last;
  };
  IdVector<ArenaId, Span> spans;
  IndexVector<int64_t> begins(static_cast<size_t>(graph.op_count) + 2, 0);
  for (const ArenaId id : graph.bytes.ids()) {
    const int32_t producer = graph.producer[id];
    const auto readers = graph.readers[id];
    const Span span{std::max(producer + 1, graph.last_stage[producer]),
                    readers.empty() ? -1 : readers.back() - 1};
    spans.push_back(span);
    if (span.first > span.last) continue;
    begins[span.first] += graph.bytes[id];
    begins[span.last + 1] -= graph.bytes[id];
  }
  WorkingSetBound bound;
  int64_t pinned = 0;
  for (int32_t stage = 0; stage < graph.op_count; ++stage) {
    pinned += begins[stage];
    int64_t bytes = pinned + graph.fixed_bytes[stage];
    for (const ArenaId input : graph.inputs[stage]) {
      const Span& span = spans[input];
      const bool is_counted = span.first <= stage && stage <= span.last;
      if (!is_counted) bytes += graph.bytes[input];
    }
    for (const ArenaId output : graph.outputs[stage]) bytes += graph.bytes[output];
    if (bound.op == kNone || bytes > bound.bytes)
      bound = {bytes, graph.op_ids[stage], BoundProof::pinned};
  }
  return bound;
}

}  // namespace snug::plan
