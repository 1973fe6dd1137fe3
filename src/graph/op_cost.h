// SPDX-License-Identifier: Apache-2.0
// What a run of an op costs: what it computes and moves, and how a machine's speed at it is learnt.
// Only predictions and plans use it; no result depends on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/input_types.h"
#include "snug/attrs.h"
#include "snug/types.h"

namespace snug {

struct Cost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};
struct CostArgs {
  const InputTypes& inputs;
  std::span<const TensorType> outputs;
  const Attrs& attrs;
};
using CostFn = std::function<Cost(const CostArgs&)>;

/// Which of its operands an op finds in the caches in a training step.
enum class Finds : uint8_t {
  some,      // half
  most,      // what was just written
  little,    // large operands, of which what is written goes back to memory
  nothing,   // what was kept from a forward part of many steps
  unwarmed,  // rows anywhere in memory, what other threads wrote, or code that runs once a step
};

/// What the time of a run is in proportion to.
enum class RateBasis : uint8_t { flops, bytes, both };

/// A node that is run to learn how fast the machine is, small enough for the measurement's memory.
struct RateProbe {
  InputTypes inputs;
  Attrs attrs = {};
  RateBasis basis = RateBasis::bytes;
  int64_t ids = 0;                  // integer inputs are random numbers below it
  std::optional<Finds> finds = {};  // where this node finds other operands than most of its op
};

/// The rate of an ordinary machine: two cores of a server CPU.
struct UsualRate {
  double per_call = 0;
  double per_flop = 0;
  double per_byte = 0;
};

/// Left alone: an op that is as fast as an addition with the same bytes, cheap to run again.
struct Timing {
  Finds finds = Finds::some;
  /// Nodes that are measured once on each machine; null: not measured.
  std::vector<RateProbe> (*probes)() = nullptr;
  /// Nodes with one kind have one rate: "op" or "op.variant", which is as fast as its op where it
  /// was not measured. Null: the op's name.
  std::string (*kind)(const CostArgs&) = nullptr;
  /// Where nothing was measured; null: that of ops without a rate.
  const UsualRate* usual = nullptr;
  /// Its rate is that of ops that are not measured.
  bool is_typical = false;
  /// Named strategies that run nothing expensive again keep its outputs.
  bool is_expensive = false;
};

}  // namespace snug
