// SPDX-License-Identifier: Apache-2.0
// The named strategies of the field as actions of the chain. In all of them the last segment is not
// recomputed.
//
//   recompute-all   every block but the last keeps only its input
//   sqrt, memory    about √n segments between articulation storages (Chen et al. 2016)
//   every:K         the input of every K-th block is kept
//   chen:BYTES      greedy: a segment ends where its blocks have made more than BYTES (Chen et al.
//                   2016, algorithm 3); `chen` tries the quotas of 1 .. n equal parts and takes the
//                   smallest load
//   speed           outputs of matrix products, convolutions and attention are kept, all else is
//                   made again from them
//   revolve:C       at most C block inputs are kept at once; binomial (Griewank and Walther 2000,
//                   algorithm 799)
//   marks:A;B       storages whose name matches a pattern (* is any text) are kept; all else is
//                   made again from them, once (marked.h)
//   marked          the same with what the problem itself marks
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/index_vector.h"
#include "plan/chain/chain.h"
#include "plan/chain/marked.h"

namespace snug::plan {

/// One list of actions, or several of which the one with the smallest load is meant (`chen`).
/// Throws Error{bad_config} for a name that is no strategy. Not for marks.
[[nodiscard]] std::vector<std::vector<ChainAction>> strategy_actions(
    const ProblemIndex& index, const Chain& chain, const IndexVector<BlockOptions>& options,
    std::string_view strategy);

/// What a strategy of marks keeps; nothing for the others. Throws Error{bad_config} where it keeps
/// nothing.
[[nodiscard]] std::optional<Marks> strategy_marks(const ProblemIndex& index,
                                                  std::string_view strategy);

/// Throws as strategy_actions does where only the name is wrong.
void check_strategy_name(std::string_view strategy);

}  // namespace snug::plan
