// SPDX-License-Identifier: Apache-2.0
// Views of one value that are alike become one: the gradients of three maps that read the same rows
// (a query, a key and a value) look at them as a matrix three times.
//   before   %2 = reshape(%0) {shape=[6]}   %3 = exp(%2)   %4 = reshape(%0) {shape=[6]}   %5 =
//   neg(%4) after    %2 = reshape(%0) {shape=[6]}   %3 = exp(%2)   %5 = neg(%2)
// A view owns no bytes and runs no kernel, so no plan changes, and no bit. Views of different
// phases stay, and those of different parts that are run again, and what has a name or a mark. Runs
// behind remove_dead, which leaves none that nobody reads. O(nodes log nodes).
#pragma once

#include "graph/op_def.h"

namespace snug::compile {

[[nodiscard]] Graph share_views(Graph graph, const OpRegistry& registry);

}  // namespace snug::compile
