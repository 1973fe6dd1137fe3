// SPDX-License-Identifier: Apache-2.0
#include "ops/token_positions/token_positions.h"

#include "ops/op_rules.h"

namespace snug {
namespace {

std::vector<TensorType> infer_token_positions(const InferArgs& args) {
  require_dtype(args, 0, DType::i32, "ids");
  require_rank(args, 0, 2, "ids");
  if (args.attrs.int64("pad") < 0) shape_error(args, "pad must not be negative");
  return {args.inputs[0]};
}

Cost cost_token_positions(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 2));
}

}  // namespace

ValueId token_positions(GraphBuilder& builder, ValueId ids, int64_t pad) {
  return builder.op1("token_positions", {ids}, {{"pad", pad}});
}

std::span<const OpDef> token_positions_ops() {
  static const OpDef ops[] = {
      {.name = "token_positions",
       .inputs = std::vector<InputSpec>{"ids"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"positions"},
       .attrs = std::vector<AttrSpec>{required_attr("pad", int64_t{0})},
       .infer = infer_token_positions,
       .gradient = not_differentiable("its result is whole numbers"),
       .keeps = Keeps{},
       .cost = cost_token_positions,
       .alias = never_in_place(),
       .row_flow = row_flow::leading_rows_alone},
  };
  return ops;
}

}  // namespace snug
