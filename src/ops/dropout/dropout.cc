// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout/dropout.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

std::vector<TensorType> infer_dropout(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_dtype(args, 1, DType::i64, "rng");
  require_shape(args, 1, {3}, "rng");
  const double rate = args.attrs.real("rate");
  if (!(rate >= 0 && rate < 1)) shape_error(args, "rate must be in [0, 1)");
  const int64_t ordinal = args.attrs.int64("ordinal");
  if (ordinal < 0 || ordinal >= int64_t{1} << 32) {
    shape_error(args, "ordinal " + std::to_string(ordinal) + " is not in [0, 2^32)");
  }
  const int64_t axis = args.attrs.int64("sample_axis");
  if (axis != 0 && axis != -1) shape_error(args, "sample_axis must be 0 or -1");
  if (axis == 0 && args.inputs[0].shape.empty()) shape_error(args, "x has no axis 0 for samples");
  return {args.inputs[0]};
}

std::vector<ValueId> vjp_dropout(const VjpArgs& args) {
  return {args.builder.op1("dropout", {args.dy[0], args.in(1)}, args.node.attrs), kNone};
}

// Philox needs about 80 integer operations for four words.
Cost cost_dropout(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.outputs[0], 20));
}

// A mask for all of x is the same in every micro-batch, whatever rows that has.
int row_flow_of_dropout(const RowFlowArgs& args) {
  return args.attrs.int64("sample_axis") == 0 ? row_flow::leading_rows_alone(args) : kCoupledRows;
}

std::vector<RateProbe> dropout_probes() {
  return probes::few_and_many([](int64_t rows) {
    return RateProbe{{probes::matrix(rows), probes::rng()},
                     {{"rate", 0.1}, {"ordinal", int64_t{0}}}};
  });
}

}  // namespace

ValueId dropout(GraphBuilder& builder, ValueId x, ValueId rng, double rate, int64_t sample_axis) {
  const int64_t ordinal = builder.next_random_ordinal();
  return builder.op1("dropout", {x, rng},
                     {{"rate", rate}, {"ordinal", ordinal}, {"sample_axis", sample_axis}});
}

std::span<const OpDef> dropout_ops() {
  static const OpDef ops[] = {
      {.name = "dropout",
       .inputs = std::vector<InputSpec>{"x", "rng"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = std::vector<AttrSpec>{required_attr("rate", 0.0),
                                      with_role(AttrRole::ordinal,
                                                neutral(required_attr("ordinal", int64_t{0}))),
                                      with_role(AttrRole::sample, {"sample_axis", int64_t{0}})},
       .infer = infer_dropout,
       .gradient = Gradient(vjp_dropout),
       .keeps = Keeps{.inputs = 0b10},
       .cost = cost_dropout,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = dropout_probes},
       .row_flow = row_flow_of_dropout,
       .precision = {Paint::infer}},
  };
  return ops;
}

}  // namespace snug
