// SPDX-License-Identifier: Apache-2.0
// Positions that count the tokens that are no padding, as RoBERTa's are.
//
// token_positions(ids i32(B, T)) {pad} -> positions i32(B, T)
//   A token that is not `pad` has the position pad + how many such tokens its row has up to it;
//   `pad` itself has the position pad. Not differentiable.
#pragma once

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId token_positions(GraphBuilder& builder, ValueId ids, int64_t pad);

}  // namespace snug
