// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/peers.h"

#include <bit>
#include <map>
#include <vector>

#include "base/mix_bits.h"

namespace snug::plan {
namespace {

// Deep enough to tell the products of a layer apart; less than a layer, so that the first and the
// last one are like those between.
constexpr int32_t kRounds = 3;

uint64_t mixed(uint64_t a, uint64_t b) { return mix_bits(a * kMixStep + b); }

using Colours = IndexVector<uint64_t>;

Colours first_colours(const ProblemIndex& index, const StageGraph& graph) {
  Colours colours;
  for (int32_t op = 0; op < graph.op_count; ++op) {
    uint64_t colour = graph.run_ids[op] >= index.backward_begin ? 1 : 0;
    colour = mixed(colour, std::bit_cast<uint64_t>(graph.cost[op]));
    colour = mixed(colour, static_cast<uint64_t>(graph.fixed_bytes[op]));
    colour = mixed(colour, graph.inputs[op].size());
    for (const int32_t way : graph.variants_of(op)) {
      colour = mixed(colour, std::bit_cast<uint64_t>(graph.cost[way]));
      colour = mixed(colour, static_cast<uint64_t>(graph.fixed_bytes[way]));
    }
    for (const ArenaId output : graph.outputs[op])
      colour = mixed(colour, static_cast<uint64_t>(graph.bytes[output]));
    colours.push_back(colour);
  }
  colours.push_back(0);  // the end
  return colours;
}

Colours refined(const StageGraph& graph, const IdVector<ArenaId, int32_t>& output,
                const Colours& before) {
  Colours after = before;
  for (int32_t op = 0; op < graph.op_count; ++op) {
    uint64_t colour = before[op];
    for (const ArenaId input : graph.inputs[op])
      colour = mixed(mixed(colour, before[graph.producer[input]]), output[input]);
    for (const ArenaId each : graph.outputs[op]) {
      uint64_t readers = 0;  // in any order
      for (const int32_t reader : graph.readers[each]) readers += mixed(before[reader], 1);
      colour = mixed(colour, readers);
    }
    after[op] = colour;
  }
  return after;
}

}  // namespace

Peers::Peers(const ProblemIndex& index, const StageGraph& graph) : graph_(graph) {
  output_.assign(graph.bytes.size(), 0);
  for (int32_t op = 0; op < graph.op_count; ++op) {
    int32_t number = 0;
    for (const ArenaId output : graph.outputs[op]) output_[output] = number++;
  }
  Colours colours = first_colours(index, graph);
  for (int32_t round = 0; round < kRounds; ++round) colours = refined(graph, output_, colours);

  std::map<uint64_t, std::vector<int32_t>> alike;
  for (int32_t op = 0; op < graph.op_count; ++op) alike[colours[op]].push_back(op);
  const auto stages = static_cast<size_t>(graph.op_count) + 1;
  later_.assign(stages, -1);
  earlier_.assign(stages, -1);
  later_[graph.op_count] = earlier_[graph.op_count] = graph.op_count;
  for (const auto& [colour, ops] : alike) {
    if (ops.size() == 1) later_[ops[0]] = earlier_[ops[0]] = ops[0];
    for (size_t i = 1; i < ops.size(); ++i) {
      const bool is_backward = graph.run_ids[ops[i]] >= index.backward_begin;
      (is_backward ? earlier_ : later_)[ops[i - 1]] = ops[i];
      (is_backward ? later_ : earlier_)[ops[i]] = ops[i - 1];
      is_empty_ = false;
    }
  }
}

ArenaId Peers::storage(ArenaId storage, Toward toward) const {
  const int32_t op = stage(graph_.producer[storage], toward);
  return op < 0 ? ArenaId(kNone) : graph_.outputs[op][static_cast<size_t>(output_[storage])];
}

}  // namespace snug::plan
