// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <span>
#include <vector>

#include "ops/optimizer/optimizer_codec.h"
#include "ops/optimizer/optimizer_step.h"
#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

void run_optimizer_accumulate(const RefArgs& args) {
  for (int64_t i = 0; i < args.outputs[0].size(); ++i) {
    args.outputs[0].data[i] = args.inputs[0].data[i] + args.inputs[1].data[i];
  }
}

void run_set_zero(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
}

void run_gradient_squares(const RefArgs& args) {
  const double scale = args.inputs[1].data[0];
  double sum = 0;
  for (int64_t i = 0; i < args.inputs[0].size(); ++i)
    sum += args.inputs[0].data[i] * args.inputs[0].data[i];
  args.outputs[0].data[0] = sum * scale * scale;
}

void run_global_norm(const RefArgs& args) {
  const double max_norm = args.attrs.real("max_norm");
  double sum = 0;
  for (const RefTensor& input : args.inputs) sum += input.data[0];
  const double norm = std::sqrt(sum);
  args.outputs[0].data[0] = norm;
  double coefficient = 1;
  if (!std::isfinite(norm)) {
    coefficient = std::numeric_limits<double>::quiet_NaN();
  } else if (max_norm > 0) {
    coefficient = std::min(1.0, max_norm / (norm + 1e-6));
  }
  args.outputs[1].data[0] = coefficient;
}

// The numbers of a state of codes.
std::vector<double> optimizer_decoded(StateForm form, const RefTensor& codes,
                                      const double* scales) {
  std::vector<double> values(static_cast<size_t>(codes.size()));
  for (int64_t i = 0; i < codes.size(); ++i) {
    const auto one = static_cast<uint8_t>(codes.data[i]);
    float value = 0;
    decode_states(form, static_cast<float>(scales[i / kStateBlock]), {&one, 1}, &value);
    values[static_cast<size_t>(i)] = static_cast<double>(value);
  }
  return values;
}

void code(StateForm form, const std::vector<double>& values, uint32_t dither, double* codes,
          double* scales) {
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<float> numbers(values.begin(), values.end());
  for (int64_t begin = 0; begin < count; begin += kStateBlock) {
    const auto n = static_cast<size_t>(std::min(kStateBlock, count - begin));
    std::array<uint8_t, kStateBlock> block{};
    scales[begin / kStateBlock] = static_cast<double>(
        encode_states(form, std::span(numbers).subspan(static_cast<size_t>(begin), n),
                      dither + static_cast<uint32_t>(begin) * kDitherElement, block.data()));
    std::copy_n(block.begin(), n, codes + begin);
  }
}

}  // namespace

std::span<const RefKernelDef> optimizer_ref_kernels() {
  static const RefKernelDef kernels[] = {{"accumulate", run_optimizer_accumulate},
                                         {"set_zero", run_set_zero},
                                         {"gradient_squares", run_gradient_squares},
                                         {"global_norm", run_global_norm}};
  return kernels;
}

void step_with_whole_gradient(const RefArgs& args, RefFn step) {
  const size_t rows_input = index_of(StepInput::row_of, args.inputs.size());
  const double* const row_of = args.inputs[rows_input].data;
  if (row_of == nullptr) return step(args);
  const TensorType& weight = args.inputs[0].type;
  const int64_t width = weight.shape[1];
  std::vector<double> whole(static_cast<size_t>(element_count(weight)), 0.0);
  for (int64_t row = 0; row < weight.shape[0]; ++row) {
    const auto from = static_cast<int64_t>(row_of[row]);
    if (from > 0)
      std::copy_n(args.inputs[1].data + (from - 1) * width, width, whole.data() + row * width);
  }
  std::vector<RefTensor> inputs(args.inputs.begin(), args.inputs.end());
  inputs[1] = {{DType::f32, weight.shape}, whole.data()};
  inputs[rows_input].data = nullptr;
  step({inputs, args.outputs, args.attrs});
}

void step_coded(const RefArgs& args, RefFn step) {
  const size_t states = (args.outputs.size() - 1) / 2;
  const std::vector<int64_t>& squares = args.attrs.ints(kSquaresAttr);
  const int64_t count = args.inputs[0].size();
  const auto form_of = [&](size_t s) {
    return StateForm{find_codec(args.attrs.text(kCodecAttr)).value(), squares[s] != 0};
  };
  std::vector<std::vector<double>> before;
  std::vector<std::vector<double>> after(states, std::vector<double>(static_cast<size_t>(count)));
  std::vector<RefTensor> inputs = {args.inputs[0], args.inputs[1]};
  std::vector<RefTensor> outputs = {args.outputs[0]};
  for (size_t s = 0; s < states; ++s) {
    before.push_back(
        optimizer_decoded(form_of(s), args.inputs[2 + 2 * s], args.inputs[3 + 2 * s].data));
    inputs.push_back({args.inputs[0].type, before[s].data()});
    outputs.push_back({args.inputs[0].type, after[s].data()});
  }
  inputs.insert(inputs.end(), args.inputs.end() - kInputsBehindStates, args.inputs.end());
  step({inputs, outputs, args.attrs});
  const auto update = static_cast<int64_t>(args.inputs[2 + 2 * states].data[1]);
  for (size_t s = 0; s < states; ++s)
    code(form_of(s), after[s], state_dither(update, static_cast<uint32_t>(s)),
         args.outputs[1 + 2 * s].data, args.outputs[2 + 2 * s].data);
}

}  // namespace snug
