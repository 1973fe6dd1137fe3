// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer_step.h"

#include <utility>

namespace snug {

OpDef make_step_op(StepOp step) {
  std::vector<InputSpec> inputs = {"w", "g"};
  std::vector<std::string> outputs = {"w"};
  std::vector<std::pair<int, int>> storages = {{0, 0}};
  for (const char* state : step.states) {
    storages.emplace_back(static_cast<int>(outputs.size()), static_cast<int>(inputs.size()));
    inputs.emplace_back(state);
    outputs.emplace_back(state);
  }
  inputs.emplace_back("hyper");
  inputs.push_back(optional_input("coefficient"));
  std::vector<AttrSpec> attrs;
  for (const std::string& number : step.numbers) attrs.push_back(required_attr(number, 0.0));
  for (const std::string& flag : step.flags) attrs.emplace_back(flag, false);
  return {.name = std::move(step.name),
          .inputs = std::move(inputs),
          .is_variadic = false,
          .outputs = std::move(outputs),
          .attrs = std::move(attrs),
          .infer = step.infer,
          .gradient = not_differentiable("it is a part of the update"),
          .keeps = Keeps{},
          .cost = step.cost,
          .alias = must_overwrite(std::move(storages)),
          .timing = {.finds = Finds::little}};
}

void require_f32(const InferArgs& args, size_t input, const Shape& shape, const std::string& name) {
  require_dtype(args, input, DType::f32, name);
  require_shape(args, input, shape, name);
}

std::vector<TensorType> infer_step(const InferArgs& args, const std::vector<std::string>& states) {
  require_dtype(args, 0, DType::f32, "w");
  require_f32(args, 1, args.inputs[0].shape, "g");
  for (size_t i = 0; i < states.size(); ++i)
    require_f32(args, i + 2, args.inputs[0].shape, states[i]);
  require_hyper(args, states.size() + 2);
  return std::vector<TensorType>(states.size() + 1, args.inputs[0]);
}

void require_hyper(const InferArgs& args, size_t input) {
  require_f32(args, input, {4}, "hyper");
  require_f32(args, input + 1, {}, "coefficient");
}

void require_share(const InferArgs& args, const std::string& name) {
  const double value = args.attrs.real(name);
  if (!(value >= 0 && value < 1)) shape_error(args, name + " must be in [0, 1)");
}

void require_not_negative(const InferArgs& args, const std::string& name) {
  if (!(args.attrs.real(name) >= 0)) shape_error(args, name + " must not be negative");
}

}  // namespace snug
