// SPDX-License-Identifier: Apache-2.0
// Equal parts of a graph, found by what ops are and how they hang together, whatever their names: a
// decision that is good in one layer of a deep network is mostly good in the next.
#pragma once

#include <cstdint>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/graphs/stage_graph.h"

namespace snug::plan {

enum class Toward : uint8_t { later, earlier };

/// Ops are alike where their costs, bytes and operands are, and those of what they read and what
/// reads them, some ops deep (colour refinement: Weisfeiler and Leman, 1968).
class Peers {
 public:
  Peers(const ProblemIndex& index, const StageGraph& graph);

  /// No op is like another.
  [[nodiscard]] bool is_empty() const { return is_empty_; }
  /// What `stage` is in the next equal part of the forward part, or in the one before; the backward
  /// part comes to equal parts the other way round. An op like no other, and the end, are their own
  /// peers; -1: no further part.
  [[nodiscard]] int32_t stage(int32_t stage, Toward toward) const {
    return toward == Toward::later ? later_[stage] : earlier_[stage];
  }
  /// None: no further part.
  [[nodiscard]] ArenaId storage(ArenaId storage, Toward toward) const;

 private:
  const StageGraph& graph_;
  IndexVector<int32_t> later_;
  IndexVector<int32_t> earlier_;
  IdVector<ArenaId, int32_t> output_;  // which of its op's
  bool is_empty_ = true;
};

}  // namespace snug::plan
