// SPDX-License-Identifier: Apache-2.0
// Attention against the reference on sizes that cross its blocks of keys and queries, on every
// instruction set; and that padding changes no bit.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/one_kernel_test.h"

namespace snug {
namespace {

struct Size {
  int64_t samples;
  int64_t tokens;
  int64_t heads;
  int64_t columns;
};

// Key t of sample b is visible; sample 1 sees nothing.
std::vector<double> prefix_mask(const Size& size, int64_t visible) {
  std::vector<double> mask;
  for (int64_t b = 0; b < size.samples; ++b) {
    for (int64_t t = 0; t < size.tokens; ++t)
      mask.push_back(b != 1 && t < visible && t % 11 != 3 ? 1 : 0);
  }
  return mask;
}

OneKernel forward(const Size& size, double rate, const std::vector<double>& mask,
                  int64_t window = 0) {
  OneKernel one(
      "attention",
      {{"heads", size.heads}, {"rate", rate}, {"ordinal", int64_t{3}}, {"window", window}});
  const Shape shape{size.samples, size.tokens, size.heads * size.columns};
  one.add_normal(shape).add_normal(shape).add_normal(shape);
  if (mask.empty()) {
    one.add_absent();
  } else {
    one.add({DType::boolean, {size.samples, size.tokens}}, mask);
  }
  return rate > 0 ? one.add({DType::i64, {3}}, {99, 4, 1}) : one.add_absent();
}

OneKernel backward(const OneKernel& one, const KernelOutputs& outputs,
                   const std::vector<double>& diff_o) {
  OneKernel grad("attention_grad", one.attrs);
  for (size_t i = 0; i < 3; ++i) grad.add(one.types[i], one.data[i]);
  const NodeSpec spec = one.spec();
  grad.add(spec.outputs[0], outputs[0])
      .add(spec.outputs[1], outputs[1])
      .add(spec.outputs[0], diff_o);
  for (size_t i = 3; i < 5; ++i) {
    if (one.types.has(i)) {
      grad.add(one.types[i], one.data[i]);
    } else {
      grad.add_absent();
    }
  }
  return grad;
}

void check(const Size& size, double rate, const std::vector<double>& mask, int64_t window = 0) {
  SCOPED_TRACE(std::to_string(size.tokens) + " tokens, " + std::to_string(size.columns) +
               " columns");
  const OneKernel one = forward(size, rate, mask, window);
  const KernelOutputs outputs = run_on_cpu(one, 2);
  expect_close(one, outputs, 3e-6);
  const OneKernel grad =
      backward(one, outputs, OneKernel("").add_normal(one.types[0].shape).data[0]);
  const KernelOutputs gradients = run_on_cpu(grad, 2);
  expect_close(grad, gradients, 3e-6);
  for (const int threads : {1, 3}) {
    EXPECT_TRUE(run_on_cpu(one, threads) == outputs) << threads << " threads";
    EXPECT_TRUE(run_on_cpu(grad, threads) == gradients) << threads << " threads";
  }
}

TEST(Attention_kernel, Agrees_with_the_reference_across_blocks) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const Size odd{2, 70, 2, 33};
    check(odd, 0, {});
    check(odd, 0.2, prefix_mask(odd, 45));
    const Size several_blocks{2, 300, 1, 5};
    check(several_blocks, 0, {});
    check(several_blocks, 0.1, prefix_mask(several_blocks, 290));
    const Size wide{1, 135, 1, 200};
    check(wide, 0.5, {});
    check({3, 2, 2, 64}, 0, {});
  });
}

TEST(Attention_kernel, Windows_agree_with_the_reference_across_blocks) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const Size several_blocks{2, 600, 1, 8};
    for (const int64_t window : {1, 64, 100, 700}) {
      check(several_blocks, 0, {}, window);
      check(several_blocks, 0.1, prefix_mask(several_blocks, 410), window);
    }
  });
}

TEST(Attention_kernel, Hidden_keys_at_either_end_are_left_out) {
  const Size size{2, 290, 1, 16};
  std::vector<double> mask(2 * 290, 0);
  for (size_t t = 150; t < 200; ++t) mask[t] = 1;
  for (size_t t = 0; t < 290; ++t) mask[290 + t] = t == 289 ? 1 : 0;
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    check(size, 0, mask);
    check(size, 0.3, mask);
  });
}

// The first `tokens` rows of every sample of a (B, T, E) tensor, or zeros behind them.
std::vector<double> resize(const std::vector<double>& x, const Size& from, int64_t tokens) {
  const auto width = static_cast<size_t>(from.heads * from.columns);
  std::vector<double> y;
  for (int64_t b = 0; b < from.samples; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      for (size_t e = 0; e < width; ++e) {
        y.push_back(t < from.tokens ? x[static_cast<size_t>(b * from.tokens + t) * width + e] : 0);
      }
    }
  }
  return y;
}

void check_padding(int64_t window) {
  const Size tight{1, 37, 2, 20};
  for (const int64_t padded_tokens : {48, 128, 300}) {
    SCOPED_TRACE(padded_tokens);
    const Size padded{1, padded_tokens, 2, 20};
    const OneKernel one = forward(tight, 0.1, {}, window);
    std::vector<double> mask(static_cast<size_t>(padded_tokens), 0);
    std::fill_n(mask.begin(), tight.tokens, 1.0);
    OneKernel longer = forward(padded, 0.1, mask, window);
    for (size_t i = 0; i < 3; ++i) longer.data[i] = resize(one.data[i], tight, padded_tokens);
    const KernelOutputs outputs = run_on_cpu(one, 1);
    const KernelOutputs longer_outputs = run_on_cpu(longer, 1);
    EXPECT_TRUE(resize(longer_outputs[0], padded, tight.tokens) == outputs[0]);
    const std::vector<double> diff_o = OneKernel("").add_normal(one.types[0].shape).data[0];
    const KernelOutputs gradients = run_on_cpu(backward(one, outputs, diff_o), 1);
    const KernelOutputs longer_gradients =
        run_on_cpu(backward(longer, longer_outputs, resize(diff_o, tight, padded_tokens)), 1);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(resize(longer_gradients[i], padded, tight.tokens) == gradients[i])
          << "gradient " << i;
    }
  }
}

TEST(Attention_kernel, Padding_changes_no_bit) {
  for (const int64_t window : {0, 9, 80}) check_padding(window);
}

TEST(Attention_kernel, Not_a_number_is_not_hidden) {
  const Size size{1, 20, 1, 8};
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    OneKernel one = forward(size, 0, {});
    one.data[1][5 * 8 + 2] = std::nan("");
    const KernelOutputs outputs = run_on_cpu(one, 1);
    for (const double o : outputs[0]) EXPECT_TRUE(std::isnan(o));
  });
}

TEST(Attention_kernel, Scratch_holds_no_square_of_tokens) {
  const auto scratch = [](const OneKernel& one) {
    return make_cpu_backend({.threads = 2, .profile = default_profile()})
        ->select(one.spec())
        .scratch_bytes;
  };
  const Size small{4, 512, 12, 64};
  EXPECT_LT(scratch(forward(small, 0, {})), int64_t{512} * 1024);
  OneKernel grad("attention_grad", {{"heads", int64_t{1}}});
  const TensorType x{DType::f32, {1, 65536, 64}};
  for (int i = 0; i < 4; ++i) grad.add(x, {});
  grad.add({DType::f32, {1, 1, 65536}}, {}).add(x, {}).add_absent().add_absent();
  EXPECT_LT(scratch(grad), int64_t{1024} * 1024);
}

}  // namespace
}  // namespace snug
