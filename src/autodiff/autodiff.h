// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation, graph to graph: appends backward nodes to the graph that is being
// built. Relies on the ops' own gradient rules; knows no op but `fill` (the seed of a scalar),
// `add` and `accumulate` (sums of contributions), `cast` (between 16 bits and f32).
//
// Design: freezing is dead-code elimination. Only nodes on a path from `wrt` to the output get a
// gradient, and a rule is told which inputs need one, so nothing is built or kept for a frozen
// weight. Backward nodes come in the reverse order of forward nodes and carry their scope.
// Contributions to one value are summed as soon as two exist; those to a value that is used often
// (a weight of every step of a recurrent net) in place, where the caller gives a state for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "graph/builder.h"

namespace snug::autodiff {

/// Told the gradient of a `wrt` value as soon as it is final, so that its update or accumulation
/// can be appended right there and the gradient dies at once. It may append nodes to the builder.
using GradientSink = std::function<void(ValueId wrt, ValueId gradient)>;

/// What the sink does with the value that was differentiated by. `reads`: nothing or reading alone,
/// so a node's final gradients come before its other ones and their memory is free sooner.
/// `overwrites`: an update in place, so the node's other gradients, which may read the old value,
/// come first.
enum class SinkEffect : uint8_t { reads, overwrites };

/// Where the contributions to a `wrt` value that is used `uses` times are summed: a resident value
/// of its type, zero at the start of every run, which each of them is accumulated into in place.
/// Its last version is the gradient. kNone: the sums are values of their own.
using GradientAccumulator = std::function<ValueId(ValueId wrt, int uses)>;

/// Appends the gradients of `output` with respect to `wrt` and returns them by value. `seed` is the
/// gradient of `output` itself, of its type; kNone stands for 1 and wants a scalar. A `wrt` value
/// on which the output does not depend is absent from the result and never reported to the sink.
/// Throws Error{unsupported} that names the node where an op on the path has no gradient,
/// Error{invalid_graph} for a wrong output, seed or wrt.
std::map<ValueId, ValueId> append_gradients(GraphBuilder& builder, ValueId output, ValueId seed,
                                            std::span<const ValueId> wrt,
                                            const GradientSink& on_gradient = {},
                                            SinkEffect effect = SinkEffect::reads,
                                            const GradientAccumulator& accumulator = {});

}  // namespace snug::autodiff
