// SPDX-License-Identifier: Apache-2.0
// Convolutions by tiles of 2 x 2 places: near the reference, and the same bits whatever the threads
// and whatever other images there are.
#include <gtest/gtest.h>

#include "backend/cpu/one_kernel_test.h"

namespace snug {
namespace {

using Ints = std::vector<int64_t>;

struct Layer {
  int64_t images;
  int64_t height;
  int64_t width;
  int64_t in;
  int64_t out;
  int64_t padding = 1;
};

Attrs attrs_of(const Layer& layer) { return {{"padding", Ints{layer.padding, layer.padding}}}; }

Shape x_of(const Layer& layer) { return {layer.images, layer.height, layer.width, layer.in}; }
Shape y_of(const Layer& layer) {
  return {layer.images, layer.height + 2 * layer.padding - 2, layer.width + 2 * layer.padding - 2,
          layer.out};
}

OneKernel forward(const Layer& layer) {
  OneKernel one("conv2d", attrs_of(layer));
  return one.add_normal(x_of(layer))
      .add_normal({layer.out, layer.in, 3, 3})
      .add_normal({layer.out});
}
OneKernel of_input(const Layer& layer) {
  Attrs attrs = attrs_of(layer);
  attrs.set("image", Ints{layer.height, layer.width});
  OneKernel one("conv2d_grad_input", attrs);
  return one.add_normal({layer.out, layer.in, 3, 3}).add_normal(y_of(layer));
}
OneKernel of_weight(const Layer& layer) {
  Attrs attrs = attrs_of(layer);
  attrs.set("kernel", Ints{3, 3});
  OneKernel one("conv2d_grad_weight", attrs);
  return one.add_normal(x_of(layer)).add_normal(y_of(layer));
}

std::string kernel_of(const OneKernel& one) {
  return make_cpu_backend({.threads = 2, .profile = default_profile()})->select(one.spec()).kernel;
}

class Winograd : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_of(forward({1, 8, 8, 64, 64})) != "winograd:conv2d")
      GTEST_SKIP() << "oneDNN's kernels run with " << to_string(instruction_set());
  }
};

TEST_F(Winograd, kernels_are_near_the_reference_and_independent_of_threads) {
  // Many tiles and few, odd sides, no padding and more than usual, channels of several panels.
  for (const Layer& layer : {Layer{3, 16, 17, 64, 32}, Layer{1, 8, 8, 32, 96},
                             Layer{2, 9, 11, 96, 64, 0}, Layer{2, 7, 8, 32, 32, 2}}) {
    for (const OneKernel& one : {forward(layer), of_input(layer), of_weight(layer)}) {
      EXPECT_EQ(kernel_of(one), "winograd:" + one.op);
      const KernelOutputs found = run_on_cpu(one, 1);
      expect_close(one, found, 1e-6);
      for (const int threads : {2, 3, 4, 7}) EXPECT_TRUE(run_on_cpu(one, threads) == found);
    }
  }
}

// Micro-batches of any size give the same rows.
TEST_F(Winograd, an_image_does_not_see_the_others) {
  const Layer three{3, 10, 9, 32, 64};
  Layer single = three;
  single.images = 1;
  const std::pair<OneKernel, OneKernel> pairs[] = {{forward(three), forward(single)},
                                                   {of_input(three), of_input(single)}};
  for (const auto& [together, alone] : pairs) {
    const std::vector<double> all = run_on_cpu(together, 2)[0];
    // The images are the operand whose size differs.
    const size_t images = together.op == "conv2d" ? 0 : 1;
    for (size_t i = 0; i < 3; ++i) {
      OneKernel one = alone;
      const size_t count = one.data[images].size();
      const auto from = together.data[images].begin() + static_cast<ptrdiff_t>(i * count);
      one.data[images].assign(from, from + static_cast<ptrdiff_t>(count));
      const std::vector<double> found = run_on_cpu(one, 2)[0];
      EXPECT_TRUE(std::equal(found.begin(), found.end(),
                             all.begin() + static_cast<ptrdiff_t>(i * found.size())))
          << together.op << ", image " << i;
    }
  }
}

}  // namespace
}  // namespace snug
