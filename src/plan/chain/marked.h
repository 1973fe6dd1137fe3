// SPDX-License-Identifier: Apache-2.0
// A schedule of marks: the backward part finds what was marked, and whatever else it needs of a
// part that is run again is made from that, right before it is needed. Nothing else is kept, so
// that a caller's own choice is honoured to the byte.
//
//   parts     of a step: what an op in a part makes is kept only for ops outside of it and for
//             other parts (checkpoint of PyTorch); parts lie within parts. What is in no part is
//             kept.
//   marks     alone, without parts: all that leads to a mark is one part (gradients of
//             cybertronai, RecomputeOptimizer of Paddle). What leads to none, the last segment, is
//             kept.
//
// Where a part holds marks, they are kept too. Every op of a part that lies in no other runs again
// at most once.
#pragma once

#include <string_view>
#include <vector>

#include "base/id_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

struct Marks {
  IdVector<OpId, std::vector<int32_t>> parts;  // outermost first
  IdVector<StorageId, bool> is_kept;
};

/// What the problem itself says (Op::parts, Storage::is_marked). Throws Error{bad_config} where it
/// says nothing, and for a mark that can save nothing.
[[nodiscard]] Marks declared_marks(const ProblemIndex& index);

/// Storages whose name matches one of "A;B" (* is any text). Throws Error{bad_config} for a pattern
/// that names nothing that can be kept.
[[nodiscard]] Marks named_marks(const ProblemIndex& index, std::string_view patterns);

/// An op that would read another version of a weight the second time, or that may not run twice,
/// runs once and what it makes is kept.
[[nodiscard]] std::vector<OpId> marked_schedule(const ProblemIndex& index, const Marks& marks);

}  // namespace snug::plan
