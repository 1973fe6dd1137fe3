// SPDX-License-Identifier: Apache-2.0
// Convolutions of bf16: every output within the rounding of its type of the reference, by oneDNN's
// kernels where the processor multiplies bf16, on copies in f32 elsewhere.
#include <gtest/gtest.h>

#include "backend/cpu/one_kernel_test.h"
#include "backend/cpu/onednn.h"

namespace snug {
namespace {

using Ints = std::vector<int64_t>;

struct Layer {
  const char* name;
  Shape x;
  Shape w;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool has_bias = false;
  bool is_usual = false;  // of the networks there are: oneDNN has all three kernels
};

std::vector<Layer> layers() {
  return {
      {.name = "three", .x = {2, 14, 14, 64}, .w = {64, 64, 3, 3}, .padding = 1, .is_usual = true},
      {.name = "one", .x = {2, 14, 14, 64}, .w = {128, 64, 1, 1}, .is_usual = true},
      {.name = "strided",
       .x = {2, 28, 28, 32},
       .w = {64, 32, 3, 3},
       .stride = 2,
       .padding = 1,
       .is_usual = true},
      {.name = "shortcut", .x = {2, 14, 14, 64}, .w = {128, 64, 1, 1}, .stride = 2},
      {.name = "bias", .x = {1, 9, 8, 16}, .w = {32, 16, 3, 3}, .padding = 1, .has_bias = true},
      {.name = "stem", .x = {2, 32, 31, 3}, .w = {64, 3, 7, 7}, .stride = 2, .padding = 3},
      {.name = "odd", .x = {2, 6, 7, 19}, .w = {21, 19, 3, 3}, .padding = 1},
      {.name = "groups", .x = {2, 6, 6, 32}, .w = {32, 8, 3, 3}, .padding = 1, .groups = 4},
      {.name = "depthwise", .x = {2, 7, 7, 32}, .w = {32, 1, 3, 3}, .padding = 1, .groups = 32},
      {.name = "dilated", .x = {1, 9, 9, 16}, .w = {16, 16, 3, 3}, .padding = 2, .dilation = 2},
      {.name = "tiny", .x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}},
      {.name = "none", .x = {0, 4, 4, 16}, .w = {16, 16, 3, 3}, .padding = 1}};
}

OneKernel& add_bf16(OneKernel& one, const Shape& shape) {
  one.add_normal(shape);
  std::vector<double> values = std::move(one.data.back());
  one.data.pop_back();
  for (double& value : values)
    value = static_cast<double>(to_f32(to_bf16(static_cast<float>(value))));
  InputTypes types;
  for (size_t i = 0; i + 1 < one.types.size(); ++i) types.add(one.types[i]);
  one.types = types;
  return one.add({DType::bf16, shape}, std::move(values));
}

std::vector<OneKernel> parts_of(const Layer& layer) {
  const Attrs attrs = {{"stride", Ints{layer.stride, layer.stride}},
                       {"padding", Ints{layer.padding, layer.padding}},
                       {"dilation", Ints{layer.dilation, layer.dilation}},
                       {"groups", layer.groups}};
  OneKernel forward("conv2d", attrs);
  add_bf16(add_bf16(forward, layer.x), layer.w);
  if (layer.has_bias)
    forward.add_normal({layer.w[0]});
  else
    forward.add_absent();
  const Shape y = forward.spec().outputs[0].shape;
  Attrs with_image = attrs;
  with_image.set("image", Ints{layer.x[1], layer.x[2]});
  OneKernel of_input("conv2d_grad_input", with_image);
  add_bf16(add_bf16(of_input, layer.w), y);
  Attrs with_kernel = attrs;
  with_kernel.set("kernel", Ints{layer.w[2], layer.w[3]});
  OneKernel of_weight("conv2d_grad_weight", with_kernel);
  add_bf16(add_bf16(of_weight, layer.x), y);
  return {forward, of_input, of_weight};
}

std::vector<double> numbers_in(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> values;
  const size_t size = dtype == DType::bf16 ? 2 : 4;
  for (size_t at = 0; at < bytes.size(); at += size) {
    Bf16 half;
    float single = 0;
    std::memcpy(dtype == DType::bf16 ? static_cast<void*>(&half) : &single, &bytes[at], size);
    values.push_back(static_cast<double>(dtype == DType::bf16 ? to_f32(half) : single));
  }
  return values;
}

TEST(Convolutions_of_bf16, are_rounded_once) {
  for (const Layer& layer : layers()) {
    for (const OneKernel& one : parts_of(layer)) {
      SCOPED_TRACE(std::string(layer.name) + " " + one.op);
      const DType stored = one.spec().outputs[0].dtype;
      const auto want = run_on_reference(one);
      for (const int threads : {1, 2}) {
        const auto bytes = run_on_cpu_to_bytes(one, threads);
        ASSERT_EQ(bytes.size(), 1u);
        EXPECT_EQ(bytes, run_on_cpu_to_bytes(one, threads));
        const double bound = stored == DType::bf16 ? 1.0 / 512 : 1e-6;
        EXPECT_LT(distance(numbers_in(bytes[0], stored), want[0]), bound) << threads;
      }
    }
  }
}

TEST(Convolutions_of_bf16, run_on_instructions_for_them) {
  if (!has_bf16_products()) GTEST_SKIP() << "this processor has none";
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  for (const Layer& layer : layers()) {
    for (const OneKernel& one : parts_of(layer)) {
      if (!layer.is_usual) continue;
      EXPECT_EQ(backend->select(one.spec()).kernel, "onednn:" + one.op) << layer.name;
    }
  }
}

}  // namespace
}  // namespace snug
