// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_norm/batch_norm.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {
namespace {

// (C) of x; checks that there are rows to take statistics of.
Shape channels_of(const InferArgs& args) {
  require_floating(args, 0, "x");
  const Shape& x = args.inputs[0].shape;
  if (x.size() < 2) shape_error(args, "x " + to_string(x) + " has no rows of channels");
  if (!(args.attrs.real("eps") >= 0)) shape_error(args, "eps must not be negative");
  return {x.back()};
}
// A batch without elements has no statistics.
Shape channels_of_batch(const InferArgs& args) {
  Shape channels = channels_of(args);
  if (element_count(args.inputs[0]) == 0)
    shape_error(args, "x " + to_string(args.inputs[0].shape) + " has no elements to normalise");
  return channels;
}
void require_channels(const InferArgs& args, size_t first, std::vector<const char*> names,
                      const Shape& channels) {
  for (size_t i = 0; i < names.size(); ++i) {
    require_dtype(args, first + i, DType::f32, names[i]);
    require_shape(args, first + i, channels, names[i]);
  }
}

std::vector<TensorType> infer_batch_norm(const InferArgs& args) {
  const Shape channels = channels_of_batch(args);
  require_channels(args, 1, {"gamma", "beta"}, channels);
  return {args.inputs[0], {DType::f32, channels}, {DType::f32, channels}};
}

std::vector<TensorType> infer_batch_norm_grad(const InferArgs& args) {
  const Shape channels = channels_of_batch(args);
  require_channels(args, 1, {"gamma", "mean", "variance"}, channels);
  require_dtype(args, 4, args.inputs[0].dtype, "dy");
  require_shape(args, 4, args.inputs[0].shape, "dy");
  return {args.inputs[0], {DType::f32, channels}, {DType::f32, channels}};
}

std::vector<TensorType> infer_inference(const InferArgs& args) {
  const Shape channels = channels_of(args);
  require_channels(args, 1, {"gamma", "beta", "mean", "variance"}, channels);
  return {args.inputs[0]};
}

std::vector<TensorType> infer_running(const InferArgs& args) {
  require_rank(args, 0, 1, "running_mean");
  require_channels(args, 0, {"running_mean", "running_variance", "mean", "variance"},
                   args.inputs[0].shape);
  const double momentum = args.attrs.real("momentum");
  if (!(momentum >= 0 && momentum <= 1)) shape_error(args, "momentum must be between 0 and 1");
  if (args.attrs.int64("rows") < 1) shape_error(args, "rows must be at least 1");
  return {args.inputs[0], args.inputs[1]};
}

std::vector<ValueId> vjp_batch_norm(const VjpArgs& args) {
  if (args.dy[1] != kNone || args.dy[2] != kNone) {
    throw Error(ErrorCode::unsupported, "batch_norm",
                "the mean and variance of batch_norm have no gradient");
  }
  if (args.dy[0] == kNone) return {kNone, kNone, kNone};
  return args.builder.op("batch_norm_grad",
                         {args.in(0), args.in(1), args.out(1), args.out(2), args.dy[0]},
                         args.node.attrs);
}

template <int flops>
Cost cost_of_batch_norm(const CostArgs& args) {
  return streaming_cost(args, element_flops(args.inputs[0], flops));
}

// Matrices, vectors of as many elements as a row has, and matrices after them.
template <int kVectors, int kMatricesAfter>
std::vector<RateProbe> batch_norm_probes() {
  return probes::few_and_many([](int64_t rows) {
    RateProbe probe{{probes::matrix(rows)}};
    for (int i = 0; i < kVectors; ++i) probe.inputs.add(probes::f32({probes::kWidth}));
    for (int i = 0; i < kMatricesAfter; ++i) probe.inputs.add(probes::matrix(rows));
    return probe;
  });
}

}  // namespace

BatchNormOutputs batch_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta,
                            double eps) {
  const std::vector<ValueId> outputs = builder.op("batch_norm", {x, gamma, beta}, {{"eps", eps}});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId batch_norm_inference(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta,
                             ChannelStatistics statistics, double eps) {
  return builder.op1("batch_norm_inference", {x, gamma, beta, statistics.mean, statistics.variance},
                     {{"eps", eps}});
}

void update_running_statistics(GraphBuilder& builder, ChannelStatistics running,
                               ChannelStatistics batch, double momentum, int64_t rows) {
  builder.op("running_statistics", {running.mean, running.variance, batch.mean, batch.variance},
             {{"momentum", momentum}, {"rows", rows}});
}

std::span<const OpDef> batch_norm_ops() {
  static const std::vector<AttrSpec> eps = {{"eps", 1e-5}};
  // Weights and statistics stay in f32.
  constexpr Precision kRowsAlone = {Paint::infer, [](const InputTypes&) { return 0b1U; }};
  static const OpDef ops[] = {
      {.name = "batch_norm",
       .inputs = std::vector<InputSpec>{"x", "gamma", "beta"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y", "mean", "variance"},
       .attrs = eps,
       .infer = infer_batch_norm,
       .gradient = Gradient(vjp_batch_norm),
       .keeps = Keeps{.inputs = 0b011, .outputs = 0b110},
       .cost = cost_of_batch_norm<8>,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = batch_norm_probes<2, 0>},
       .has_statistics = true,
       .precision = kRowsAlone},
      {.name = "batch_norm_grad",
       .inputs = std::vector<InputSpec>{"x", "gamma", "mean", "variance", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx", "dgamma", "dbeta"},
       .attrs = eps,
       .infer = infer_batch_norm_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_of_batch_norm<10>,
       .alias = may_overwrite({{0, 4}, {0, 0}}),
       .timing = {.probes = batch_norm_probes<3, 1>}},
      {.name = "batch_norm_inference",
       .inputs = std::vector<InputSpec>{"x", "gamma", "beta", "mean", "variance"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = eps,
       .infer = infer_inference,
       .gradient = not_differentiable("it is for evaluation"),
       .keeps = Keeps{},
       .cost = cost_of_batch_norm<2>,
       .alias = may_overwrite({{0, 0}}),
       .timing = {.probes = batch_norm_probes<4, 0>},
       .row_flow = row_flow::all_but_last,
       .precision = kRowsAlone},
      {.name = "running_statistics",
       .inputs = std::vector<InputSpec>{"running_mean", "running_variance", "mean", "variance"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"running_mean", "running_variance"},
       .attrs = std::vector<AttrSpec>{{"momentum", 0.1}, required_attr("rows", int64_t{1})},
       .infer = infer_running,
       .gradient = not_differentiable("statistics are not trained"),
       .keeps = Keeps{},
       .cost = cost_of_batch_norm<6>,
       .alias = must_overwrite({{0, 0}, {1, 1}})},
  };
  return ops;
}

}  // namespace snug
