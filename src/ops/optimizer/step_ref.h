// SPDX-License-Identifier: Apache-2.0
// What the reference kernels of optimizers' steps have in common.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {

/// The inputs behind the states.
[[nodiscard]] inline const double* hyper_of(const RefArgs& args) {
  return args.inputs[index_of(StepInput::hyper, args.inputs.size())].data;
}
/// The clipping coefficient; 1 where it is absent.
[[nodiscard]] inline double coefficient_of(const RefArgs& args) {
  const double* coefficient =
      args.inputs[index_of(StepInput::coefficient, args.inputs.size())].data;
  return coefficient == nullptr ? 1 : *coefficient;
}

/// Runs the step, with a whole gradient where it is row-sparse.
void step_with_whole_gradient(const RefArgs& args, RefFn step);

/// Runs the step, or copies w and the states where the update is skipped: by `hyper`, or by the
/// coefficient of a norm that is not finite.
template <void (*kStep)(const RefArgs&)>
void run_or_skip(const RefArgs& args) {
  if (hyper_of(args)[3] != 1 && !std::isnan(coefficient_of(args)))
    return step_with_whole_gradient(args, kStep);
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const RefTensor& before = args.inputs[i == 0 ? 0 : i + 1];
    std::copy_n(before.data, before.size(), args.outputs[i].data);
  }
}

/// Decodes the states of NAME_8bit, runs NAME in double and codes them again.
void step_coded(const RefArgs& args, RefFn step);
template <void (*kStep)(const RefArgs&)>
void run_between_codes(const RefArgs& args) {
  step_coded(args, kStep);
}
template <void (*kStep)(const RefArgs&)>
void run_coded(const RefArgs& args) {
  run_or_skip<run_between_codes<kStep>>(args);
}

}  // namespace snug
