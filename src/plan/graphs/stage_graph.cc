// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/stage_graph.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/index_vector.h"

namespace snug::plan {

StageGraph::StageGraph(const ProblemIndex& index, IndexSpan<const OpId> order)
    : op_count(index.op_count()),
      run_ids(order.begin(), order.end()),
      way_of(index.problem.run_count(), 0),
      has_variants(!index.problem.variants.empty()) {
  for (int32_t t = 0; t < op_count; ++t) way_of[order[t]] = t;
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
  cost.push_back(0);
  run_ids.emplace_back(kNone);
  for (const ArenaId input : inputs[op_count]) readers_of[input].push_back(op_count);
  IndexVector<std::vector<int32_t>> variants_by_op(has_variants ? op_count + 1 : 0);
  for (const OpId id : index.problem.variant_ids()) {
    const Op& variant = index.problem.run(id);
    const auto way = static_cast<int32_t>(run_ids.size());
    const int32_t op = way_of[variant.variant_of];
    way_of[id] = way;
    run_ids.push_back(id);
    op_of_variant.push_back(op);
    variants_by_op[op].push_back(way);
    inputs.add_row(arena_ids(variant.inputs));
    outputs.add_row(arena_ids(variant.outputs));
    overwritten.add_row({});
    fixed_bytes.push_back(variant.scratch_bytes);
    cost.push_back(variant.seconds);
    for (const ArenaId input : inputs[way]) readers_of[input].push_back(op);
  }
  for (const auto& ways : variants_by_op) variants.add_row(ways);
  for (auto& row : readers_of) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    readers.add_row(row);
  }
  // What reads a storage that was overwritten meanwhile needs it made again first.
  IdVector<ArenaId, int32_t> overwriter(bytes.size(), -1);
  for (int32_t t = 0; t < op_count; ++t) {
    for (const ArenaId gone : overwritten[t]) overwriter[gone] = t;
  }
  last_of_way.assign(run_ids.size(), op_count);
  const auto limit_runs = [&](int32_t op, int32_t way) {
    int32_t& last = last_of_way[way];
    last = last_stage[op];
    for (const ArenaId input : inputs[way]) {
      const int32_t by = overwriter[input];
      if (by < 0) continue;
      const int32_t made = last_stage[producer[input]];
      last = std::min(last, std::max(by, made));
    }
  };
  for (int32_t t = 0; t < op_count; ++t) {
    limit_runs(t, t);
    int32_t last = last_of_way[t];
    for (const int32_t way : variants_of(t)) {
      limit_runs(t, way);
      last = std::max(last, last_of_way[way]);
    }
    last_stage[t] = last;
  }
}

WorkingSetBound pinned_order_bound(const StageGraph& graph) {
  // Stages through whose own op a storage lives in every schedule; none where first > last.
  struct Span {
    int32_t first;
    int32_t last;
  };
  const auto always_reads = [&](int32_t op, ArenaId storage) {
    const auto variants = graph.variants_of(op);
    return variants.empty() || (graph.reads(op, storage) &&
                                std::all_of(variants.begin(), variants.end(), [&](int32_t way) {
                                  return graph.reads(way, storage);
                                }));
  };
  const auto last_reader = [&](ArenaId storage) {
    const auto readers = graph.readers[storage];
    for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
      if (always_reads(*reader, storage)) return *reader;
    }
    return int32_t{0};
  };
  IdVector<ArenaId, Span> spans;
  IndexVector<int64_t> begins(static_cast<size_t>(graph.op_count) + 2, 0);
  for (const ArenaId id : graph.bytes.ids()) {
    const int32_t producer = graph.producer[id];
    const Span span{std::max(producer + 1, graph.last_stage[producer]), last_reader(id) - 1};
    spans.push_back(span);
    if (span.first > span.last) continue;
    begins[span.first] += graph.bytes[id];
    begins[span.last + 1] -= graph.bytes[id];
  }
  WorkingSetBound bound;
  int64_t pinned = 0;
  for (int32_t stage = 0; stage < graph.op_count; ++stage) {
    pinned += begins[stage];
    const auto bytes_of_way = [&](int32_t way) {
      int64_t bytes = graph.fixed_bytes[way];
      for (const ArenaId input : graph.inputs[way]) {
        const Span& span = spans[input];
        const bool is_counted = span.first <= stage && stage <= span.last;
        if (!is_counted) bytes += graph.bytes[input];
      }
      return bytes;
    };
    int64_t least = bytes_of_way(stage);
    for (const int32_t way : graph.variants_of(stage)) least = std::min(least, bytes_of_way(way));
    int64_t bytes = pinned + least;
    for (const ArenaId output : graph.outputs[stage]) bytes += graph.bytes[output];
    if (bound.op == kNone || bytes > bound.bytes)
      bound = {bytes, graph.run_ids[stage], BoundProof::pinned};
  }
  return bound;
}

}  // namespace snug::plan
