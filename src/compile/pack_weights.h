// SPDX-License-Identifier: Apache-2.0
// Packs weights once for the products of few rows that read them (ops/packed_matmul), in training
// once an update:
//   before   %3 = matmul(%x, %w) {transpose_b=true} forward   %4 = matmul(%3, %w) {...} forward
//   after    %p = pack_weight(%w) {transpose=true, width=16} prologue
//            %3 = packed_matmul(%x, %p) {columns=...} forward   %4 = packed_matmul(%3, %p) ...
// A weight is packed in front of the first product that reads it in this way, so what the backward
// part reads takes no bytes in the forward part. Runs behind fuse_accumulate, since packed
// products have no accumulating form, and before split_prologue, which takes the packing out of a
// program that accumulates. Linear. Changes no bit.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "backend/backend.h"
#include "graph/op_def.h"

namespace snug::compile {

/// What is packed: the same in the programs of all lengths and in that of the prologue, so it is
/// found in one of them and carried to the others (Recipe).
struct PackedWeights {
  struct Weight {
    std::string name;
    bool transposed = false;  // read as (N, K)
    auto operator<=>(const Weight&) const = default;
  };
  int64_t width = 0;  // columns of a panel: Backend::weight_panels
  std::set<Weight> weights;
  [[nodiscard]] bool empty() const { return weights.empty(); }
  bool operator==(const PackedWeights&) const = default;
};

/// The weights that more than one product reads in one way, or one that runs more than once an
/// update (`repeats`), if all of these products have few rows. Which may read panels,
/// OpDef::packed_form says.
[[nodiscard]] PackedWeights packable_weights(const Graph& graph, const WeightPanels& panels,
                                             bool repeats);

/// Every product that may read panels of these weights does. The graph need not read all of them: a
/// recurrent net of one step has no gradient by a state. `phase`: of the packings.
[[nodiscard]] Graph pack_weights(Graph graph, const OpRegistry& registry,
                                 const PackedWeights& which, Phase phase = Phase::prologue);

/// How many there are.
[[nodiscard]] size_t count_packings(const Graph& graph);

}  // namespace snug::compile
