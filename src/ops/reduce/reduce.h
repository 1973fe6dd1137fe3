// SPDX-License-Identifier: Apache-2.0
// Reductions of f32 tensors.
//
//   reduce_sum(x) {axes, keep_dims}    dx = dy over the summed dims keeps nothing reduce_mean(x)
//   {axes, keep_dims}   dx = dy / count                                            keeps nothing
//   reduce_max(x) {axes, keep_dims}    dx = dy shared equally by the elements that are the maximum
//   keeps x, y sum_squares(x) -> f32[]            dx = 2 dy x keeps x
// No axes: nothing is reduced. Every kernel sums in an order that does not depend on the number of
// threads. The mean and the maximum of nothing do not exist: reducing a dim of size 0 is an error
// there.
#pragma once

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId reduce_sum(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes,
                                 bool keep_dims = false);
[[nodiscard]] ValueId reduce_mean(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes,
                                  bool keep_dims = false);
[[nodiscard]] ValueId reduce_max(GraphBuilder& builder, ValueId x, std::vector<int64_t> axes,
                                 bool keep_dims = false);
[[nodiscard]] ValueId sum_squares(GraphBuilder& builder, ValueId x);

/// The shape of x with the reduced dims as 1, whatever keep_dims says. The axes have passed the
/// shape rule.
[[nodiscard]] Shape reduced_shape(const Shape& x, const std::vector<int64_t>& axes);

}  // namespace snug
