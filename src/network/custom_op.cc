// SPDX-License-Identifier: Apache-2.0
// From a caller's op to an OpDef with its kernel.
#include "snug/custom_op.h"

#include <algorithm>
#include <exception>

#include "backend/backend.h"
#include "network/facts.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::network {
namespace {

using SharedOp = std::shared_ptr<const CustomOp>;

double bytes_of(std::span<const TensorType> types) {
  double sum = 0;
  for (const TensorType& type : types) sum += static_cast<double>(byte_count(type));
  return sum;
}

class CallersOpKernel final : public Kernel {
 public:
  CallersOpKernel(SharedOp op, const NodeSpec& spec)
      : op_(std::move(op)),
        inputs_(spec.inputs.given()),
        outputs_(spec.outputs),
        attrs_(spec.attrs) {}
  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override try {
    op_->run({.input_types = inputs_,
              .output_types = outputs_,
              .attributes = attrs_,
              .inputs = launch.inputs,
              .outputs = launch.outputs,
              .scratch = launch.scratch});
    return ErrorCode::ok;
  } catch (const Error& error) {
    return error.code();
  } catch (const std::exception&) {
    return ErrorCode::internal;
  }

 private:
  SharedOp op_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
  Attrs attrs_;
};

std::vector<TensorType> infer(const CustomOp& op, const InferArgs& args) {
  std::vector<TensorType> types = op.infer(args.inputs.given(), args.attrs);
  if (types.size() != op.outputs.size())
    throw Error(ErrorCode::invalid_graph, args.where,
                "infer gives " + std::to_string(types.size()) + " types for " +
                    std::to_string(op.outputs.size()) + " outputs");
  return types;
}

// The op's own builder calls, on the graph that the backward part is appended to.
std::vector<ValueId> gradient_of(const CustomOp& op, const VjpArgs& args) {
  static const compile::BuildRequest request;  // a gradient knows its operands' shapes only
  NetworkFacts unused;
  NetworkBuilder::State state{
      .graph = args.builder, .request = request, .facts = unused, .is_gradient = true};
  NetworkBuilder builder(state);
  const auto tensors = [&](std::span<const ValueId> ids) {
    std::vector<Tensor> found;
    for (const ValueId id : ids) found.push_back(tensor_in(builder, id));
    return found;
  };
  const std::vector<Tensor> inputs = tensors(args.node.inputs);
  const std::vector<Tensor> outputs = tensors(args.node.outputs);
  std::vector<Tensor> dy = tensors(args.dy);
  for (size_t i = 0; i < dy.size(); ++i) {
    if (!is_floating(outputs[i].type().dtype)) dy[i] = {};  // nothing flows back through one
  }
  const std::vector<Tensor> found = op.gradient({.builder = builder,
                                                 .inputs = inputs,
                                                 .outputs = outputs,
                                                 .gradients = dy,
                                                 .attributes = args.node.attrs});
  if (found.size() != inputs.size())
    throw Error(ErrorCode::invalid_graph, op.name,
                "its gradient gives " + std::to_string(found.size()) + " tensors for " +
                    std::to_string(inputs.size()) + " inputs",
                "give one an input, none (Tensor(), or None) where nothing flows back");
  std::vector<ValueId> ids;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] && found[i].type() != inputs[i].type())
      throw Error(ErrorCode::shape_mismatch, op.name,
                  "the gradient of its input '" + op.inputs[i] + "' is " +
                      to_string(found[i].type()) + ", the input " + to_string(inputs[i].type()));
    ids.push_back(found[i] ? value_of(builder, found[i], "gradient") : kNone);
  }
  return ids;
}

int64_t scratch_of(const CustomOp& op, const NodeSpec& spec) {
  constexpr int64_t kMost = int64_t{1} << 46;
  if (!op.scratch_bytes) return 0;
  const int64_t bytes = op.scratch_bytes(spec.inputs.given(), spec.attrs);
  if (bytes >= 0 && bytes <= kMost) return bytes;
  throw Error(ErrorCode::bad_config, op.name,
              "its scratch_bytes are " + std::to_string(bytes) + ", not within 0 and " +
                  std::to_string(kMost));
}

OpDef definition_of(const SharedOp& op) {
  std::vector<InputSpec> inputs;
  for (const std::string& name : op->inputs) inputs.emplace_back(name.c_str());
  std::vector<AttrSpec> attrs;
  for (const auto& [name, value] : op->attributes) attrs.emplace_back(name, value);
  const Gradient gradient =
      op->gradient ? Gradient(VjpFn([op](const VjpArgs& args) { return gradient_of(*op, args); }))
                   : not_differentiable("its program gives no gradient");
  const Keeps everything = {.inputs = ~uint32_t{0}, .outputs = ~uint32_t{0}};
  const CallersKernel kernel = {
      .scratch_bytes = [op](const NodeSpec& spec) { return scratch_of(*op, spec); },
      .create = [op](const NodeSpec& spec) -> std::unique_ptr<Kernel> {
        return std::make_unique<CallersOpKernel>(op, spec);
      }};
  return {.name = op->name,
          .inputs = std::move(inputs),
          .is_variadic = false,
          .outputs = op->outputs,
          .attrs = std::move(attrs),
          .infer = InferFn([op](const InferArgs& args) { return infer(*op, args); }),
          .gradient = gradient,
          .keeps = op->gradient ? everything : Keeps{},
          .cost = CostFn([op](const CostArgs& args) {
            return Cost{.flops = op->flops ? op->flops(args.inputs.given(), args.attrs) : 0,
                        .bytes_read = bytes_of(args.inputs.given()),
                        .bytes_written = bytes_of(args.outputs)};
          }),
          .alias = never_in_place(),
          .callers_kernel = std::make_shared<const CallersKernel>(kernel),
          .row_flow = op->couples_rows ? nullptr : row_flow::leading};
}

void check(const CustomOp& op, const std::vector<const OpDef*>& taken) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::bad_config, op.name.empty() ? "an op" : op.name, what);
  };
  if (op.name.empty()) fail("it has no name");
  if (std::any_of(taken.begin(), taken.end(),
                  [&](const OpDef* other) { return *other->name == op.name; }))
    fail("there is an op of this name");
  if (op.inputs.empty() || op.outputs.empty()) fail("it has no inputs or no outputs");
  if (!op.infer) fail("it does not say the types of its outputs (infer)");
  if (!op.run) fail("it has no kernel (run)");
}

}  // namespace

std::shared_ptr<const OpRegistry> registry_with(const std::vector<SharedOp>& ops) {
  struct Holder {
    std::vector<std::unique_ptr<const OpDef>> definitions;
    std::unique_ptr<const OpRegistry> registry;
  };
  const auto holder = std::make_shared<Holder>();
  std::vector<const OpDef*> all = op_registry().all();
  for (const SharedOp& op : ops) {
    if (op == nullptr)
      throw Error(ErrorCode::bad_config, "an op", "Network::add was given none",
                  "give a std::make_shared<CustomOp>(...)");
    check(*op, all);
    holder->definitions.push_back(std::make_unique<const OpDef>(definition_of(op)));
    all.push_back(holder->definitions.back().get());
  }
  holder->registry = std::make_unique<const OpRegistry>(std::move(all));
  return {holder, holder->registry.get()};
}

}  // namespace snug::network
