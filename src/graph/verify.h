// SPDX-License-Identifier: Apache-2.0
// The rules that every graph keeps; run after every pass in Debug builds and in all tests.
#pragma once

#include "graph/graph.h"

namespace snug {

/// Throws Error{invalid_graph} that names the node: ids in range, single assignment, producers
/// before users, types as inferred, names unique, residents overwritten at most once and not read
/// in their old version afterwards.
void verify(const Graph& graph);

}  // namespace snug
