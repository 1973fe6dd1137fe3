// SPDX-License-Identifier: Apache-2.0
// Gradient rules of the element-wise ops; formulas in elementwise.h.
#pragma once

#include <vector>

#include "graph/op_def.h"

namespace snug::elementwise_vjp {

using Values = std::vector<ValueId>;
Values add(const VjpArgs& args);
Values sub(const VjpArgs& args);
Values mul(const VjpArgs& args);
Values div(const VjpArgs& args);
Values neg(const VjpArgs& args);
Values exp(const VjpArgs& args);
Values log(const VjpArgs& args);
Values sqrt(const VjpArgs& args);
Values rsqrt(const VjpArgs& args);
Values tanh(const VjpArgs& args);
Values erf(const VjpArgs& args);
Values sigmoid(const VjpArgs& args);
Values relu(const VjpArgs& args);
Values gelu(const VjpArgs& args);
Values scale(const VjpArgs& args);
Values where(const VjpArgs& args);
Values cast(const VjpArgs& args);

}  // namespace snug::elementwise_vjp
