// SPDX-License-Identifier: Apache-2.0
// Which values share bytes, as the aliases of their ops say.
#pragma once

#include "base/id_vector.h"
#include "graph/graph.h"

namespace snug {

/// The value whose bytes `id` occupies: follows views and must-overwrite outputs to their source.
[[nodiscard]] ValueId storage_of(const Graph& graph, ValueId id);
/// The same for every value, in linear time: where a gradient is summed in place a thousand times,
/// each of the values is a thousand steps from its source.
[[nodiscard]] IdVector<ValueId, ValueId> storages_of(const Graph& graph);

}  // namespace snug
