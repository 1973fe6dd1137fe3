// SPDX-License-Identifier: Apache-2.0
// What shape rules and costs of most ops have in common. Messages name the input by its name in the
// op's definition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace snug {

/// The value of an attribute that is a list of integers.
using Ints = std::vector<int64_t>;

[[noreturn]] void shape_error(const InferArgs& args, const std::string& message);
void require_dtype(const InferArgs& args, size_t input, DType dtype, const std::string& name);
/// f32, bf16 or f16.
void require_floating(const InferArgs& args, size_t input, const std::string& name);
/// The element type of a floating input, or of its attribute `to` where that says one.
[[nodiscard]] DType floating_to(const InferArgs& args);
void require_shape(const InferArgs& args, size_t input, const Shape& shape,
                   const std::string& name);
void require_rank(const InferArgs& args, size_t input, size_t rank, const std::string& name);

/// Every input read once, every output written once.
[[nodiscard]] Cost streaming_cost(const CostArgs& args, double flops);
[[nodiscard]] double element_flops(const TensorType& type, double flops_per_element);

}  // namespace snug
