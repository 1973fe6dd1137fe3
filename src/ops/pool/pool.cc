// SPDX-License-Identifier: Apache-2.0
#include "ops/pool/pool.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

Shape pool_checked_output(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_rank(args, 0, 4, "x");
  const auto kernel = window_pair(args, "kernel", 1);
  const auto padding = window_pair(args, "padding", 0);
  (void)window_pair(args, "stride", 1);
  if (2 * padding.first > kernel.first || 2 * padding.second > kernel.second) {
    shape_error(args, "padding " + to_string(args.attrs.ints("padding")) +
                          " is more than half of the kernel " +
                          to_string(args.attrs.ints("kernel")));
  }
  const Shape& x = args.inputs[0].shape;
  const Pool2dDims dims = pool2d_dims(x, args.attrs);
  if (dims.height.count() == 0 || dims.width.count() == 0) {
    shape_error(args, "the kernel " + to_string(args.attrs.ints("kernel")) +
                          " does not fit on the padded image of x " + to_string(x));
  }
  return {x[0], dims.height.count(), dims.width.count(), x[3]};
}

std::vector<TensorType> infer_pool(const InferArgs& args) {
  return {{args.inputs[0].dtype, pool_checked_output(args)}};
}

std::vector<TensorType> infer_pool_grad(const InferArgs& args) {
  require_dtype(args, 1, args.inputs[0].dtype, "dy");
  require_shape(args, 1, pool_checked_output(args), "dy");
  return {args.inputs[0]};
}

std::vector<ValueId> vjp_pool(const VjpArgs& args) {
  return {args.builder.op1("max_pool2d_grad", {args.in(0), args.dy[0]}, args.node.attrs)};
}

double comparisons(const Shape& y, const Attrs& attrs) {
  const std::vector<int64_t>& kernel = attrs.ints("kernel");
  return static_cast<double>(element_count(y)) * static_cast<double>(kernel[0] * kernel[1]);
}
Cost cost_pool(const CostArgs& args) {
  return streaming_cost(args, comparisons(args.outputs[0].shape, args.attrs));
}
Cost cost_pool_grad(const CostArgs& args) {
  return streaming_cost(args, 2 * comparisons(args.inputs[1].shape, args.attrs));
}

// Windows that overlap, and windows side by side.
template <bool kIsGradient>
std::vector<RateProbe> pool_probes() {
  const Attrs halving = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  const Attrs disjoint = {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  std::vector<RateProbe> all;
  for (const Attrs& attrs : {halving, disjoint}) {
    probes::append(probes::few_and_many([&](int64_t rows) {
                     constexpr int64_t kChannels = probes::kWidth / 4;
                     RateProbe probe{{probes::f32({rows / 16, 8, 8, kChannels})}, attrs};
                     if (kIsGradient) probe.inputs.add(probes::f32({rows / 16, 4, 4, kChannels}));
                     return probe;
                   }),
                   all);
  }
  return all;
}

}  // namespace

Pool2dDims pool2d_dims(const Shape& x, const Attrs& attrs) {
  const auto axis = [&](size_t i) {
    return WindowAxis{.size = x[1 + i],
                      .kernel = attrs.ints("kernel")[i],
                      .stride = attrs.ints("stride")[i],
                      .padding = attrs.ints("padding")[i]};
  };
  return {.batch = x[0], .channels = x[3], .height = axis(0), .width = axis(1)};
}

ValueId max_pool2d(GraphBuilder& builder, ValueId x, const Pool2dOptions& options) {
  const auto pair = [](const std::pair<int64_t, int64_t>& p) {
    return std::vector<int64_t>{p.first, p.second};
  };
  return builder.op1("max_pool2d", {x},
                     {{"kernel", pair(options.kernel)},
                      {"stride", pair(options.stride)},
                      {"padding", pair(options.padding)}});
}

std::span<const OpDef> pool_ops() {
  static const std::vector<AttrSpec> attrs = {
      required_attr("kernel", Ints{}), required_attr("stride", Ints{}), {"padding", Ints{0, 0}}};
  static const OpDef ops[] = {
      {.name = "max_pool2d",
       .inputs = std::vector<InputSpec>{"x"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = attrs,
       .infer = infer_pool,
       .gradient = Gradient(vjp_pool),
       .keeps = Keeps{.inputs = 1},
       .cost = cost_pool,
       .alias = never_in_place(),
       .timing = {.finds = Finds::most, .probes = pool_probes<false>},
       .row_flow = row_flow::leading_of_first,
       .precision = {Paint::clear}},
      {.name = "max_pool2d_grad",
       .inputs = std::vector<InputSpec>{"x", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = attrs,
       .infer = infer_pool_grad,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_pool_grad,
       .alias = never_in_place(),
       // A large output, of which most is only cleared.
       .timing = {.finds = Finds::little, .probes = pool_probes<true>}},
  };
  return ops;
}

}  // namespace snug
