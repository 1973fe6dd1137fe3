// SPDX-License-Identifier: Apache-2.0
#include "ops/op_rules.h"

#include "snug/error.h"

namespace snug {

void shape_error(const InferArgs& args, const std::string& message) {
  throw Error(ErrorCode::shape_mismatch, args.where, message);
}
void require_dtype(const InferArgs& args, size_t input, DType dtype, const std::string& name) {
  if (args.inputs.has(input) && args.inputs[input].dtype != dtype) {
    shape_error(args,
                name + " must be " + to_string(dtype) + ", not " + to_string(args.inputs[input]));
  }
}
void require_floating(const InferArgs& args, size_t input, const std::string& name) {
  if (args.inputs.has(input) && !is_floating(args.inputs[input].dtype)) {
    shape_error(args, name + " must be f32, bf16 or f16, not " + to_string(args.inputs[input]));
  }
}
DType floating_to(const InferArgs& args) {
  const std::string& to = args.attrs.text("to");
  const std::optional<DType> dtype = dtype_of(to);
  if (!dtype || !is_floating(*dtype))
    throw Error(ErrorCode::invalid_graph, args.where,
                "to must be f32, bf16 or f16, not '" + to + "'");
  return *dtype;
}
void require_shape(const InferArgs& args, size_t input, const Shape& shape,
                   const std::string& name) {
  if (args.inputs.has(input) && args.inputs[input].shape != shape) {
    shape_error(args, name + " must have shape " + to_string(shape) + ", not " +
                          to_string(args.inputs[input].shape));
  }
}
void require_rank(const InferArgs& args, size_t input, size_t rank, const std::string& name) {
  if (args.inputs.has(input) && args.inputs[input].shape.size() != rank) {
    shape_error(args, name + " must have rank " + std::to_string(rank) + ", not " +
                          to_string(args.inputs[input]));
  }
}

Cost streaming_cost(const CostArgs& args, double flops) {
  Cost cost{.flops = flops};
  for (const InputTypes::Given& type : args.inputs)
    cost.bytes_read += type ? static_cast<double>(byte_count(*type)) : 0;
  for (const TensorType& type : args.outputs)
    cost.bytes_written += static_cast<double>(byte_count(type));
  return cost;
}
double element_flops(const TensorType& type, double flops_per_element) {
  return static_cast<double>(element_count(type)) * flops_per_element;
}

}  // namespace snug
