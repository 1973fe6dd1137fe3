// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d/conv2d.h"

#include "ops/op_probes.h"
#include "ops/op_rules.h"
#include "ops/reduce/reduce.h"

namespace snug {
namespace {

void check_attrs(const InferArgs& args) {
  (void)window_pair(args, "stride", 1);
  (void)window_pair(args, "padding", 0);
  (void)window_pair(args, "dilation", 1);
  if (args.attrs.int64("groups") < 1) shape_error(args, "groups must be at least 1");
}

// Checks that x, w and groups belong together and returns the shape of y.
Shape conv2d_checked_output(const InferArgs& args, const Shape& x, const Shape& w) {
  const int64_t groups = args.attrs.int64("groups");
  if (w[1] * groups != x[3]) {
    shape_error(args, "w " + to_string(w) + " in " + std::to_string(groups) + " groups reads " +
                          std::to_string(w[1] * groups) + " channels, x " + to_string(x) + " has " +
                          std::to_string(x[3]));
  }
  if (w[0] % groups != 0) {
    shape_error(args, std::to_string(groups) + " groups do not divide the " + std::to_string(w[0]) +
                          " output channels of w " + to_string(w));
  }
  if (w[2] < 1 || w[3] < 1) shape_error(args, "w " + to_string(w) + " has no taps");
  const Conv2dDims dims = conv2d_dims(x, w, args.attrs);
  if (dims.height.count() == 0 || dims.width.count() == 0) {
    shape_error(args,
                "w " + to_string(w) + " does not fit on the padded image of x " + to_string(x));
  }
  return {x[0], dims.height.count(), dims.width.count(), w[0]};
}

std::vector<TensorType> infer_conv2d(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_rank(args, 0, 4, "x");
  require_dtype(args, 1, args.inputs[0].dtype, "w");
  require_rank(args, 1, 4, "w");
  check_attrs(args);
  Shape y = conv2d_checked_output(args, args.inputs[0].shape, args.inputs[1].shape);
  require_dtype(args, 2, DType::f32, "bias");
  require_shape(args, 2, {y[3]}, "bias");
  return {{args.inputs[0].dtype, std::move(y)}};
}

Shape image_shape(const Shape& w, const Shape& dy, const Attrs& attrs) {
  const std::vector<int64_t>& image = attrs.ints("image");
  return {dy[0], image[0], image[1], w[1] * attrs.int64("groups")};
}

std::vector<TensorType> infer_grad_input(const InferArgs& args) {
  require_floating(args, 0, "w");
  require_rank(args, 0, 4, "w");
  require_dtype(args, 1, args.inputs[0].dtype, "dy");
  require_rank(args, 1, 4, "dy");
  check_attrs(args);
  (void)window_pair(args, "image", 0);
  Shape x = image_shape(args.inputs[0].shape, args.inputs[1].shape, args.attrs);
  require_shape(args, 1, conv2d_checked_output(args, x, args.inputs[0].shape), "dy");
  return {{args.inputs[0].dtype, std::move(x)}};
}

Shape weight_shape(const Shape& x, const Shape& dy, const Attrs& attrs) {
  const std::vector<int64_t>& kernel = attrs.ints("kernel");
  return {dy[3], x[3] / attrs.int64("groups"), kernel[0], kernel[1]};
}

// A sum over the batch: f32, whatever the operands are stored in.
std::vector<TensorType> infer_grad_weight(const InferArgs& args) {
  require_floating(args, 0, "x");
  require_rank(args, 0, 4, "x");
  require_dtype(args, 1, args.inputs[0].dtype, "dy");
  require_rank(args, 1, 4, "dy");
  check_attrs(args);
  (void)window_pair(args, "kernel", 1);
  Shape w = weight_shape(args.inputs[0].shape, args.inputs[1].shape, args.attrs);
  require_shape(args, 1, conv2d_checked_output(args, args.inputs[0].shape, w), "dy");
  return {{DType::f32, std::move(w)}};
}

// The gradients of bias and w come first: x dies with them, before the memory of dx is needed.
std::vector<ValueId> vjp_conv2d(const VjpArgs& args) {
  const Shape x = args.type(args.in(0)).shape;  // copies: building moves the graph's values
  const Shape w = args.type(args.in(1)).shape;
  const ValueId dy = args.dy[0];
  std::vector<ValueId> gradients(3, kNone);
  if (args.wants[2]) gradients[2] = reduce_sum(args.builder, dy, {0, 1, 2});
  if (args.wants[1]) {
    Attrs attrs = args.node.attrs;
    attrs.set("kernel", std::vector<int64_t>{w[2], w[3]});
    gradients[1] = args.builder.op1("conv2d_grad_weight", {args.in(0), dy}, std::move(attrs));
  }
  if (args.wants[0]) {
    Attrs attrs = args.node.attrs;
    attrs.set("image", std::vector<int64_t>{x[1], x[2]});
    gradients[0] = args.builder.op1("conv2d_grad_input", {args.in(1), dy}, std::move(attrs));
  }
  return gradients;
}

// Every output element is a sum over the taps and the channels of its group.
double conv2d_flops(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(w[1] * w[2] * w[3]);
}
Cost cost_conv2d(const CostArgs& args) {
  const bool has_bias = args.inputs.has(2);
  return streaming_cost(args, conv2d_flops(args.outputs[0].shape, args.inputs[1].shape) +
                                  (has_bias ? element_flops(args.outputs[0], 1) : 0));
}
Cost cost_grad_input(const CostArgs& args) {
  return streaming_cost(args, conv2d_flops(args.inputs[1].shape, args.inputs[0].shape));
}
Cost cost_grad_weight(const CostArgs& args) {
  return streaming_cost(args, conv2d_flops(args.inputs[1].shape, args.outputs[0].shape));
}

// The attributes of the forward op and, where it is not empty, one more.
std::vector<AttrSpec> attrs_with(const char* more) {
  std::vector<AttrSpec> attrs = {{"stride", Ints{1, 1}},
                                 {"padding", Ints{0, 0}},
                                 {"dilation", Ints{1, 1}},
                                 {"groups", int64_t{1}}};
  if (*more != '\0') attrs.push_back(required_attr(more, Ints{}));
  return attrs;
}

WindowAxis axis_of_conv2d(const Shape& x, const Shape& w, const Attrs& attrs, size_t axis) {
  return {.size = x[1 + axis],
          .kernel = w[2 + axis],
          .stride = attrs.ints("stride")[axis],
          .padding = attrs.ints("padding")[axis],
          .dilation = attrs.ints("dilation")[axis]};
}

constexpr UsualRate kConv2dUsualRate{
    .per_call = 5e-6, .per_flop = 1.0 / 120e9, .per_byte = 1.0 / 30e9};

enum class Part : uint8_t { forward, of_input, of_weight };

template <Part kPart>
std::vector<RateProbe> convolution_probes() {
  struct Layer {
    Shape x;
    Shape w;
    int64_t stride = 1;
  };
  std::vector<RateProbe> probes;
  const auto add = [&](const Layer& layer, DType type) {
    const int64_t padding = layer.w[2] / 2;
    const int64_t side = (layer.x[1] - 1) / layer.stride + 1;
    const TensorType x{type, layer.x};
    const TensorType w{type, layer.w};
    const TensorType y{type, {layer.x[0], side, side, layer.w[0]}};
    Attrs attrs = {{"stride", Ints{layer.stride, layer.stride}},
                   {"padding", Ints{padding, padding}}};
    if (kPart == Part::of_input) attrs.set("image", Ints{layer.x[1], layer.x[2]});
    if (kPart == Part::of_weight) attrs.set("kernel", Ints{layer.w[2], layer.w[3]});
    InputTypes inputs = {x, w, probes::kAbsent};
    if (kPart == Part::of_input) inputs = {w, y};
    if (kPart == Part::of_weight) inputs = {x, y};
    probes.push_back({std::move(inputs), std::move(attrs), RateBasis::both});
  };
  const Layer layers[] = {
      Layer{{1, 56, 56, 64}, {64, 64, 3, 3}}, Layer{{1, 56, 56, 64}, {128, 64, 1, 1}},
      Layer{{2, 28, 28, 128}, {128, 128, 3, 3}, 2}, Layer{{2, 14, 14, 512}, {256, 512, 1, 1}},
      Layer{{2, 14, 14, 192}, {192, 192, 3, 3}}, Layer{{1, 112, 112, 64}, {128, 64, 3, 3}},
      Layer{{16, 32, 32, 16}, {16, 16, 3, 3}},
      // The last stages of networks for small images.
      Layer{{16, 2, 2, 256}, {256, 256, 3, 3}}, Layer{{32, 2, 2, 512}, {256, 512, 3, 3}},
      Layer{{16, 4, 4, 256}, {256, 256, 3, 3}}, Layer{{32, 4, 4, 256}, {512, 256, 3, 3}}};
  for (const Layer& layer : layers) add(layer, DType::f32);
  for (const size_t i : {0U, 1U, 3U, 6U}) add(layers[i], DType::bf16);
  return probes;
}

// Operands of bf16 have a rate of their own, and so have windows in narrow images: a kernel that
// computes several outputs of a row at a time has no more to do.
template <Part kPart>
std::string convolution_kind(const CostArgs& args) {
  std::string name = kPart == Part::forward    ? "conv2d"
                     : kPart == Part::of_input ? "conv2d_grad_input"
                                               : "conv2d_grad_weight";
  if (args.inputs[0].dtype == DType::bf16) return name + ".bf16";
  const Shape& y = kPart == Part::forward ? args.outputs[0].shape : args.inputs[1].shape;
  const Shape& w = kPart == Part::forward    ? args.inputs[1].shape
                   : kPart == Part::of_input ? args.inputs[0].shape
                                             : args.outputs[0].shape;
  if (w[2] * w[3] == 1) return name;
  return y[2] <= 2 ? name + ".width2" : y[2] <= 4 ? name + ".width4" : name;
}

template <Part kPart>
Timing convolution_timing() {
  return {.finds = Finds::most,
          .probes = convolution_probes<kPart>,
          .kind = convolution_kind<kPart>,
          .usual = &kConv2dUsualRate,
          .is_expensive = true};
}

}  // namespace

Conv2dDims conv2d_dims(const Shape& x, const Shape& w, const Attrs& attrs) {
  return {.batch = x[0],
          .groups = attrs.int64("groups"),
          .in_channels = x[3],
          .out_channels = w[0],
          .height = axis_of_conv2d(x, w, attrs, 0),
          .width = axis_of_conv2d(x, w, attrs, 1)};
}

ValueId conv2d(GraphBuilder& builder, ValueId x, ValueId w, const Conv2dOptions& options) {
  const auto pair = [](const std::pair<int64_t, int64_t>& p) {
    return std::vector<int64_t>{p.first, p.second};
  };
  return builder.op1("conv2d", {x, w, options.bias},
                     {{"stride", pair(options.stride)},
                      {"padding", pair(options.padding)},
                      {"dilation", pair(options.dilation)},
                      {"groups", options.groups}});
}

std::span<const OpDef> conv2d_ops() {
  static const OpDef ops[] = {
      {.name = "conv2d",
       .inputs = std::vector<InputSpec>{"x", "w", optional_input("bias")},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"y"},
       .attrs = attrs_with(""),
       .infer = infer_conv2d,
       .gradient = Gradient(vjp_conv2d),
       .keeps = Keeps{.inputs = 0b011},
       .cost = cost_conv2d,
       .alias = never_in_place(),
       .timing = convolution_timing<Part::forward>(),
       .row_flow = row_flow::leading_of_first,
       .precision = {Paint::allow, [](const InputTypes&) { return 0b011U; }}},
      {.name = "conv2d_grad_input",
       .inputs = std::vector<InputSpec>{"w", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dx"},
       .attrs = attrs_with("image"),
       .infer = infer_grad_input,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_grad_input,
       .alias = never_in_place(),
       .timing = convolution_timing<Part::of_input>()},
      {.name = "conv2d_grad_weight",
       .inputs = std::vector<InputSpec>{"x", "dy"},
       .is_variadic = false,
       .outputs = std::vector<std::string>{"dw"},
       .attrs = attrs_with("kernel"),
       .infer = infer_grad_weight,
       .gradient = not_differentiable("it is a gradient"),
       .keeps = Keeps{},
       .cost = cost_grad_weight,
       .alias = never_in_place(),
       .timing = convolution_timing<Part::of_weight>()},
  };
  return ops;
}

}  // namespace snug
