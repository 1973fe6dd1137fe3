// SPDX-License-Identifier: Apache-2.0
// What the kernels of conv2d and its gradients share.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernel.h"
#include "ops/conv2d/conv2d.h"

namespace snug {

enum class ConvolutionPart : uint8_t { forward, grad_input, grad_weight };

/// A convolution node, its three ops as one.
struct Convolution {
  ConvolutionPart part = ConvolutionPart::forward;
  Conv2dDims dims;
  bool has_bias = false;
  DType operands = DType::f32;  // of all three tensors, but of the weights' gradient, which is f32
};

[[nodiscard]] inline Convolution convolution_of(const NodeSpec& spec) {
  const std::string& op = *spec.op->name;
  if (op == "conv2d_grad_input") {
    return {ConvolutionPart::grad_input,
            conv2d_dims(spec.outputs[0].shape, spec.inputs[0].shape, spec.attrs), false,
            spec.inputs[0].dtype};
  }
  if (op == "conv2d_grad_weight") {
    return {ConvolutionPart::grad_weight,
            conv2d_dims(spec.inputs[0].shape, spec.outputs[0].shape, spec.attrs), false,
            spec.inputs[0].dtype};
  }
  return {ConvolutionPart::forward,
          conv2d_dims(spec.inputs[0].shape, spec.inputs[1].shape, spec.attrs), spec.inputs.has(2),
          spec.inputs[0].dtype};
}

/// The three tensors of a convolution in a launch, whichever of them is written. T: of the
/// operands.
template <class T>
struct ConvolutionTensors {
  const T* x = nullptr;
  const T* w = nullptr;
  const T* y = nullptr;
  const float* bias = nullptr;
  T* out = nullptr;
};
template <class T>
[[nodiscard]] ConvolutionTensors<T> tensors_of(const Convolution& c, const Launch& launch) {
  auto* out = output<T>(launch);
  switch (c.part) {
    case ConvolutionPart::forward:
      return {.x = input<T>(launch, 0),
              .w = input<T>(launch, 1),
              .y = out,
              .bias = c.has_bias ? input<float>(launch, 2) : nullptr,
              .out = out};
    case ConvolutionPart::grad_input:
      return {.x = out, .w = input<T>(launch, 0), .y = input<T>(launch, 1), .out = out};
    case ConvolutionPart::grad_weight:
      return {.x = input<T>(launch, 0), .w = out, .y = input<T>(launch, 1), .out = out};
  }
  return {};
}

/// The kernel "winograd:..." of one of the three ops.
[[nodiscard]] CpuKernelDef winograd_convolution(const char* op, const char* kernel);
/// The kernel "simd:..." of one of the three ops: products of our own.
[[nodiscard]] CpuKernelDef simd_convolution(const char* op, const char* kernel);

}  // namespace snug
