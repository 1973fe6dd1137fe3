// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels of optimizers' steps have in common: their inputs, the skipped update, and
// the kernel of a step whose elements do not know one another. Its loop is in step_range-inl.h.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "backend/cpu/kernel.h"
#include "base/check.h"
#include "base/threads.h"

namespace snug {

inline constexpr size_t kMostStates = 2;
inline constexpr int64_t kStepGrain = 8192;  // elements; whole vectors

/// w, g and the states; w and the states after the step. Null where there is no such state.
struct StepOperands {
  std::array<const float*, kMostStates + 2> src = {};
  std::array<float*, kMostStates + 1> dst = {};
  const float* hyper = nullptr;
  float gradient_scale = 1;  // the clipping coefficient
};

[[nodiscard]] inline StepOperands operands_of(const Launch& launch) {
  StepOperands operands;
  const size_t hyper = launch.inputs.size() - 2;
  for (size_t i = 0; i < hyper; ++i) operands.src[i] = input<float>(launch, i);
  for (size_t i = 0; i < launch.outputs.size(); ++i) operands.dst[i] = output<float>(launch, i);
  operands.hyper = input<float>(launch, hyper);
  const auto* coefficient = input<float>(launch, hyper + 1);
  if (coefficient != nullptr) operands.gradient_scale = *coefficient;
  return operands;
}

/// A kernel from `void step(const StepOperands&, const Launch&)`, which is not called where the
/// update is skipped.
template <class Step>
[[nodiscard]] std::unique_ptr<Kernel> make_step_kernel(const NodeSpec& spec, Step step) {
  SNUG_CHECK(spec.outputs.size() <= kMostStates + 1, "a step with more states than kMostStates");
  std::array<int64_t, kMostStates + 1> bytes = {};
  for (size_t i = 0; i < spec.outputs.size(); ++i) bytes[i] = byte_count(spec.outputs[i]);
  return make_kernel([=](const Launch& launch) {
    const StepOperands operands = operands_of(launch);
    if (operands.hyper[3] != 1) {
      step(operands, launch);
      return ErrorCode::ok;
    }
    for (size_t i = 0; i < launch.outputs.size(); ++i)
      copy_overwritten(launch, i, i == 0 ? 0 : i + 1, bytes[i]);
    return ErrorCode::ok;
  });
}

/// `factors(operands)` is formed once a call, in double; `range()` is the loop over elements
/// [begin, end) for this processor.
template <class MakeFactors, class Range>
[[nodiscard]] std::unique_ptr<Kernel> make_element_step(const NodeSpec& spec,
                                                        const CpuContext& context,
                                                        MakeFactors factors, Range range) {
  return make_step_kernel(
      spec, [=, count = element_count(spec.inputs[0]), threads = context.threads](
                const StepOperands& operands, const Launch&) {
        const auto values = factors(operands);
        const auto run = range();
        parallel_for(threads, count, kStepGrain,
                     [&](int64_t begin, int64_t end) { run(values, operands, begin, end); });
      });
}

}  // namespace snug
