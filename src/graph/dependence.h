// SPDX-License-Identifier: Apache-2.0
// Which values others are made of.
#pragma once

#include <span>

#include "base/id_vector.h"
#include "graph/graph.h"

namespace snug {

/// By value: whether any of `ends` depends on it. They depend on themselves.
[[nodiscard]] IdVector<ValueId, bool> sources_of(const Graph& graph, std::span<const ValueId> ends);

/// By value: how often nodes read it, and the graph hands it out.
[[nodiscard]] IdVector<ValueId, int> count_readers(const Graph& graph);

}  // namespace snug
