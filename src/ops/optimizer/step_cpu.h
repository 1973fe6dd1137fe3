// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels of optimizers' steps have in common: their inputs, the skipped update, and
// the kernel of a step whose elements do not know one another. Its loop is in step_range-inl.h.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "backend/cpu/kernel.h"
#include "base/check.h"
#include "base/threads.h"
#include "ops/optimizer/codec_cpu.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {

inline constexpr size_t kMostStates = 2;
inline constexpr int64_t kStepGrain = 8192;  // elements; whole blocks of states

/// w, g and the states; w and the states after the step. Null where there is no such state.
struct StepOperands {
  std::array<const float*, kMostStates + 2> src = {};
  std::array<float*, kMostStates + 1> dst = {};
  const float* hyper = nullptr;
  float gradient_scale = 1;  // the clipping coefficient
};

[[nodiscard]] inline StepOperands operands_of(const Launch& launch, bool is_coded) {
  StepOperands operands;
  const size_t hyper = launch.inputs.size() - 2;
  const size_t inputs = is_coded ? 2 : hyper;
  const size_t outputs = is_coded ? 1 : launch.outputs.size();
  for (size_t i = 0; i < inputs; ++i) operands.src[i] = input<float>(launch, i);
  for (size_t i = 0; i < outputs; ++i) operands.dst[i] = output<float>(launch, i);
  operands.hyper = input<float>(launch, hyper);
  const auto* coefficient = input<float>(launch, hyper + 1);
  if (coefficient != nullptr) operands.gradient_scale = *coefficient;
  return operands;
}

/// Brings the states of a step to a loop over its elements, whatever they are stored as.
class StepStates {
 public:
  explicit StepStates(const NodeSpec& spec) {
    if (spec.inputs.size() < 5 || spec.inputs[2].dtype != DType::u8) {
      states_ = spec.outputs.size() - 1;
      return;
    }
    states_ = (spec.outputs.size() - 1) / 2;
    const StateCodec codec = find_codec(spec.attrs.text(kCodecAttr)).value();
    const std::vector<int64_t>& squares = spec.attrs.ints(kSquaresAttr);
    for (size_t s = 0; s < states_; ++s)
      coders_[s] = state_coder({.codec = codec, .is_square = squares[s] != 0});
    is_coded_ = true;
  }
  [[nodiscard]] bool is_coded() const { return is_coded_; }

  /// Calls run(part, begin, count) for parts of [first, last), which begins with a whole block.
  /// Operands of a part begin at its first element. Where states are coded they are decoded for
  /// it, and coded again behind it if `writes`.
  template <class Run>
  void for_each_part(const StepOperands& whole, const Launch& launch, int64_t first, int64_t last,
                     bool writes, Run run) const {
    StepOperands part = whole;
    const auto move_to = [&](int64_t begin) {
      for (size_t i = 0; i < 2; ++i) part.src[i] = whole.src[i] + begin;
      part.dst[0] = whole.dst[0] + begin;
    };
    if (!is_coded_) {
      move_to(first);
      for (size_t s = 0; s < states_; ++s) {
        part.src[s + 2] = whole.src[s + 2] + first;
        part.dst[s + 1] = whole.dst[s + 1] + first;
      }
      return run(part, first, last - first);
    }
    alignas(64) std::array<std::array<float, kStateBlock>, kMostStates> values;
    for (size_t s = 0; s < states_; ++s) part.src[s + 2] = part.dst[s + 1] = values[s].data();
    const int64_t update = input<int64_t>(launch, 2 + 2 * states_)[1];
    for (int64_t begin = first; begin < last; begin += kStateBlock) {
      const int64_t count = std::min(kStateBlock, last - begin);
      const int64_t block = begin / kStateBlock;
      move_to(begin);
      for (size_t s = 0; s < states_; ++s)
        coders_[s].decode(input<float>(launch, 3 + 2 * s)[block],
                          input<uint8_t>(launch, 2 + 2 * s) + begin, count, values[s].data());
      run(part, begin, count);
      if (!writes) continue;
      for (size_t s = 0; s < states_; ++s) {
        const uint32_t dither = state_dither(update, static_cast<uint32_t>(s)) +
                                static_cast<uint32_t>(begin) * kDitherElement;
        output<float>(launch, 2 + 2 * s)[block] = coders_[s].encode(
            values[s].data(), count, dither, output<uint8_t>(launch, 1 + 2 * s) + begin);
      }
    }
  }

 private:
  std::array<StateCoder, kMostStates> coders_ = {};
  size_t states_ = 0;
  bool is_coded_ = false;
};

/// A kernel from `void step(const StepOperands&, const Launch&)`, which is not called where the
/// update is skipped: by `hyper`, or by the coefficient of a norm that is not finite. Coded states
/// are no operands: StepStates brings them.
template <class Step>
[[nodiscard]] std::unique_ptr<Kernel> make_step_kernel(const NodeSpec& spec, Step step) {
  constexpr size_t kMostOutputs = 2 * kMostStates + 1;
  SNUG_CHECK(spec.outputs.size() <= kMostOutputs, "a step with more states than kMostStates");
  std::array<int64_t, kMostOutputs> bytes = {};
  for (size_t i = 0; i < spec.outputs.size(); ++i) bytes[i] = byte_count(spec.outputs[i]);
  return make_kernel([=, is_coded = StepStates(spec).is_coded()](const Launch& launch) {
    const StepOperands operands = operands_of(launch, is_coded);
    if (operands.hyper[3] != 1 && !std::isnan(operands.gradient_scale)) {
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
      spec, [=, states = StepStates(spec), count = element_count(spec.inputs[0]),
             threads = context.threads](const StepOperands& operands, const Launch& launch) {
        const auto values = factors(operands);
        const auto run = range();
        parallel_for(threads, count, kStepGrain, [&](int64_t begin, int64_t end) {
          states.for_each_part(
              operands, launch, begin, end, true,
              [&](const StepOperands& part, int64_t, int64_t n) { run(values, part, 0, n); });
        });
      });
}

}  // namespace snug
