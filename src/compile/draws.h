// SPDX-License-Identifier: Apache-2.0
// Numbers what draws behind building, so that nothing follows the order in which a compiler
// evaluates operands. Ops of the library that draw have one key (kRandomKey) and an ordinal; keys
// that a network's function asked for (kOwnKeyPrefix) have numbers, of which the first is
// kRandomKey itself.
#pragma once

#include "graph/op_def.h"
#include "snug/draw_numbering.h"

namespace snug::compile {

/// A forward graph with its draws numbered: those that are reached first from its outputs, operand
/// by operand, come first; equal ordinals stay equal.
[[nodiscard]] Graph number_draws(Graph graph, DrawNumbering numbering, const OpRegistry& registry);

/// The first ordinal that none of its ops has.
[[nodiscard]] int64_t next_ordinal(const Graph& graph);
/// Numbers those of what was added to a network behind its own, from `first` on, in the same order.
void number_added_draws(Graph& graph, int64_t first);

}  // namespace snug::compile
