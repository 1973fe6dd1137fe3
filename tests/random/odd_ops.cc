// SPDX-License-Identifier: Apache-2.0
#include "odd_ops.h"

#include <cstdint>
#include <span>
#include <string>

#include "snug/ops.h"

namespace snug::odd {
namespace {

std::vector<TensorType> type_of_first(std::span<const TensorType> inputs, const Attrs&) {
  return {inputs[0]};
}

CustomOp named(const std::string& name, std::vector<std::string> inputs) {
  CustomOp op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.infer = type_of_first;
  return op;
}

CustomOp square() {
  CustomOp op = named("own_square", {"x"});
  op.run = [](const OpCall& call) {
    const auto x = call.input<float>(0);
    const auto y = call.output<float>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i];
  };
  op.gradient = [](const GradientCall& call) {
    return std::vector{2.0 * call.inputs[0] * call.gradients[0]};
  };
  return op;
}

// A number of [-0.5, 0.5) by key, row of the batch and place in the row.
float noise(std::span<const int64_t> key, int64_t row, int64_t place) {
  uint64_t z = static_cast<uint64_t>(key[0]) * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(key[1]);
  z = z * 0xBF58476D1CE4E5B9U + static_cast<uint64_t>(key[2] + row);
  z = z * 0x94D049BB133111EBU + static_cast<uint64_t>(place);
  z = (z ^ (z >> 29)) * 0x9E3779B97F4A7C15U;
  return static_cast<float>(z >> 40) / static_cast<float>(1 << 24) - 0.5F;
}

CustomOp noisy() {
  CustomOp op = named("own_noise", {"x", "key"});
  op.run = [](const OpCall& call) {
    const auto x = call.input<float>(0);
    const auto y = call.output<float>();
    const int64_t rows = call.input_types[0].shape[0];
    const int64_t each = static_cast<int64_t>(x.size()) / rows;
    const std::span key(reinterpret_cast<const int64_t*>(call.inputs[1]), 3);
    for (int64_t i = 0; i < rows * each; ++i) {
      const auto at = static_cast<size_t>(i);
      y[at] = x[at] + noise(key, i / each, i % each);
    }
  };
  op.gradient = [](const GradientCall& call) { return std::vector{call.gradients[0], Tensor()}; };
  return op;
}

CustomOp mean() {
  CustomOp op = named("own_mean", {"x"});
  op.couples_rows = true;
  op.run = [](const OpCall& call) {
    const auto x = call.input<float>(0);
    const auto y = call.output<float>();
    const auto rows = static_cast<size_t>(call.input_types[0].shape[0]);
    const size_t each = x.size() / rows;
    for (size_t i = 0; i < each; ++i) {
      float sum = 0;
      for (size_t row = 0; row < rows; ++row) sum += x[row * each + i];
      for (size_t row = 0; row < rows; ++row) y[row * each + i] = sum / static_cast<float>(rows);
    }
  };
  op.gradient = [](const GradientCall& call) {
    const Tensor& dy = call.gradients[0];
    return std::vector{broadcast_to(reduce_mean(dy, {0}, true), dy.shape())};
  };
  return op;
}

CustomOp counted() {
  CustomOp op = named("counted", {"x"});
  op.run = [runs = std::make_shared<int64_t>(0)](const OpCall& call) {
    const auto x = call.input<float>(0);
    const auto y = call.output<float>();
    const float factor = 1 + 0.001F * static_cast<float>(++*runs);
    for (size_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
  };
  op.gradient = [](const GradientCall& call) { return std::vector{call.gradients[0]}; };
  return op;
}

}  // namespace

std::vector<std::shared_ptr<const CustomOp>> own_ops() {
  std::vector<std::shared_ptr<const CustomOp>> ops;
  for (CustomOp (*const make)() : {square, noisy, mean, counted})
    ops.push_back(std::make_shared<const CustomOp>(make()));
  return ops;
}

}  // namespace snug::odd
