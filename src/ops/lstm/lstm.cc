// SPDX-License-Identifier: Apache-2.0
#include "ops/lstm/lstm.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

// Checks gates, c and mask (at input `mask`); returns the type of c, which is f32: it is a sum over
// the steps. Gates and h may be stored in 16 bits.
TensorType require_operands(const InferArgs& args, size_t mask) {
  require_floating(args, 0, "gates");
  require_rank(args, 0, 2, "gates");
  const Shape& gates = args.inputs[0].shape;
  if (gates[1] % 4 != 0) {
    shape_error(args, "gates " + to_string(gates) + " do not have four equal parts in a row");
  }
  TensorType state{DType::f32, {gates[0], gates[1] / 4}};
  require_dtype(args, 1, DType::f32, "c");
  require_shape(args, 1, state.shape, "c");
  require_dtype(args, mask, DType::boolean, "mask");
  require_shape(args, mask, {gates[0]}, "mask");
  return state;
}

std::vector<TensorType> infer_lstm(const InferArgs& args) {
  const TensorType state = require_operands(args, 3);
  const TensorType h{args.inputs[0].dtype, state.shape};
  require_dtype(args, 2, h.dtype, "h");
  require_shape(args, 2, h.shape, "h");
  return {h, state};
}

std::vector<TensorType> infer_lstm_grad(const InferArgs& args) {
  const TensorType state = require_operands(args, 2);
  for (const size_t i : {size_t{3}, size_t{4}}) {
    const char* name = i == 3 ? "dh_next" : "dc_next";
    require_dtype(args, i, i == 3 ? args.inputs[0].dtype : DType::f32, name);
    require_shape(args, i, state.shape, name);
  }
  return {args.inputs[0], state, {args.inputs[0].dtype, state.shape}};
}

std::vector<ValueId> vjp_lstm(const VjpArgs& args) {
  const std::vector<ValueId> gradients = args.builder.op(
      "lstm_cell_grad", {args.in(0), args.in(1), args.in(3), args.dy[0], args.dy[1]});
  return {gradients[0], gradients[1], gradients[2], kNone};
}

// A sigmoid or tanh is about 15 operations; there are five for each element of a state.
Cost cost_lstm(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 80));
}
Cost cost_lstm_grad(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[1], 100));
}

template <bool kIsGradient>
std::vector<RateProbe> cell_probes() {
  return probes::few_and_many([](int64_t rows) {
    const TensorType gates = probes::f32({rows / 4, 4 * probes::kWidth});
    const TensorType state = probes::matrix(rows / 4);
    const TensorType mask = probes::boolean({rows / 4});
    if (kIsGradient) return RateProbe{{gates, state, mask, state, state}};
    return RateProbe{{gates, state, state, mask}};
  });
}

}  // namespace

LstmState lstm_cell(GraphBuilder& builder, ValueId gates, LstmState state, ValueId mask) {
  const std::vector<ValueId> next = builder.op("lstm_cell", {gates, state.c, state.h, mask});
  return {.h = next[0], .c = next[1]};
}

std::span<const OpDef> lstm_ops() {
  static const OpDef ops[] = {
      {.name = "lstm_cell",
       .inputs = std::vector<InputSpec>{"gates", "c", "h", "mask"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"h_next", "c_next"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_lstm,
       .gradient = Gradient(vjp_lstm),
       .keeps = Keeps{.inputs = 0b1011},
       .cost = cost_lstm,
       .alias = may_overwrite({{0, 2}, {1, 1}}),
       .timing = {.finds = Finds::unwarmed, .probes = cell_probes<false>},
       .row_flow = row_flow::leading,
       .precision = {Paint::allow, [](const InputTypes&) { return 0b101U; }}},
      {.name = "lstm_cell_grad",
       .inputs = std::vector<InputSpec>{"gates", "c", "mask", optional_input("dh_next"),
                                        optional_input("dc_next")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dgates", "dc", "dh"},
       .attrs = std::vector<AttrSpec>{},
       .infer = infer_lstm_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_lstm_grad,
       .alias = may_overwrite({{0, 0}, {1, 4}, {2, 3}}),
       .timing = {.finds = Finds::nothing, .probes = cell_probes<true>}},
  };
  return ops;
}

}  // namespace snug
