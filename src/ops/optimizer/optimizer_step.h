// SPDX-License-Identifier: Apache-2.0
// What the ops of optimizers' steps have in common: inputs, outputs, storages, shape rule.
#pragma once

#include <string>
#include <vector>

#include "ops/op_rules.h"

namespace snug {

/// An op that overwrites w and the states. Its attributes are real numbers that must be given, and
/// flags that are false where they are not.
struct StepOp {
  std::string name;
  std::vector<const char*> states;
  std::vector<std::string> numbers;
  std::vector<std::string> flags = {};
  InferFn infer;
  CostFn cost;
};
[[nodiscard]] OpDef make_step_op(StepOp step);

/// The types of w and the states, which are all of w's type.
[[nodiscard]] std::vector<TensorType> infer_step(const InferArgs& args,
                                                 const std::vector<std::string>& states);
/// Requires f32 of this shape at `input`.
void require_f32(const InferArgs& args, size_t input, const Shape& shape, const std::string& name);
/// hyper at `input` and the coefficient after it.
void require_hyper(const InferArgs& args, size_t input);
/// An attribute in [0, 1).
void require_share(const InferArgs& args, const std::string& name);
void require_not_negative(const InferArgs& args, const std::string& name);

}  // namespace snug
