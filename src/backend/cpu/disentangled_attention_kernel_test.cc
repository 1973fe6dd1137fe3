// SPDX-License-Identifier: Apache-2.0
// Disentangled attention against the reference on sizes that cross its blocks, on every instruction
// set; and that padding and the samples of a batch change nothing.
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
  int64_t span;
  int64_t buckets = 0;
  int64_t max_distance = 0;
  bool has_pos_key = true;
  bool has_pos_query = true;

  [[nodiscard]] int64_t width() const { return heads * columns; }
};

OneKernel forward(const Size& size, double rate = 0, const std::vector<double>& mask = {}) {
  OneKernel one("disentangled_attention", {{"heads", size.heads},
                                           {"rate", rate},
                                           {"ordinal", int64_t{3}},
                                           {"buckets", size.buckets},
                                           {"max_distance", size.max_distance}});
  const Shape shape{size.samples, size.tokens, size.width()};
  for (int i = 0; i < 3; ++i) one.add_normal(shape);
  for (const bool is_there : {size.has_pos_key, size.has_pos_query}) {
    if (is_there) {
      one.add_normal({2 * size.span, size.width()});
    } else {
      one.add_absent();
    }
  }
  if (mask.empty()) {
    one.add_absent();
  } else {
    one.add({DType::boolean, {size.samples, size.tokens}}, mask);
  }
  return rate > 0 ? one.add({DType::i64, {3}}, {99, 4, 1}) : one.add_absent();
}

OneKernel backward(const OneKernel& one, const KernelOutputs& outputs,
                   const std::vector<double>& diff_o) {
  OneKernel grad("disentangled_attention_grad", one.attrs);
  const NodeSpec spec = one.spec();
  for (size_t i = 0; i < 3; ++i) grad.add(one.types[i], one.data[i]);
  for (size_t i = 0; i < 2; ++i) grad.add(spec.outputs[i], outputs[i]);
  grad.add(spec.outputs[0], diff_o);
  for (size_t i = 3; i < 7; ++i) {
    if (one.types.has(i)) {
      grad.add(one.types[i], one.data[i]);
    } else {
      grad.add_absent();
    }
  }
  return grad;
}
OneKernel backward(const OneKernel& one, const KernelOutputs& outputs) {
  return backward(one, outputs, OneKernel("").add_normal(one.types[0].shape).data[0]);
}

void check(const Size& size, double rate = 0, const std::vector<double>& mask = {}) {
  SCOPED_TRACE(std::to_string(size.tokens) + " tokens, " + std::to_string(size.columns) +
               " columns, span " + std::to_string(size.span));
  const OneKernel one = forward(size, rate, mask);
  const KernelOutputs outputs = run_on_cpu(one, 2);
  expect_close(one, outputs, 3e-6);
  const OneKernel grad = backward(one, outputs);
  const KernelOutputs gradients = run_on_cpu(grad, 2);
  expect_close(grad, gradients, 5e-6);
  for (const int threads : {1, 3}) {
    EXPECT_TRUE(run_on_cpu(one, threads) == outputs) << threads << " threads";
    EXPECT_TRUE(run_on_cpu(grad, threads) == gradients) << threads << " threads";
  }
}

// Tokens [begin, end) of every sample but sample 1, with holes.
std::vector<double> mask_of(const Size& size, int64_t begin, int64_t end) {
  std::vector<double> mask;
  for (int64_t b = 0; b < size.samples; ++b) {
    for (int64_t t = 0; t < size.tokens; ++t)
      mask.push_back(b != 1 && t >= begin && t < end && t % 11 != 3 ? 1 : 0);
  }
  return mask;
}

TEST(Disentangled_attention_kernel, Agrees_with_the_reference_across_blocks) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const Size odd{3, 70, 2, 33, 16, 16, 48};
    check(odd);
    check(odd, 0.2, mask_of(odd, 0, 45));
    check(odd, 0.1, mask_of(odd, 20, 70));
    check({1, 300, 1, 5, 32, 32, 128}, 0.1);
    check({1, 150, 1, 7, 200});           // no distance is clamped
    check({1, 150, 1, 7, 3});             // most are
    check({1, 135, 1, 200, 20, 20, 26});  // wide, and buckets that skip rows
    check({2, 60, 2, 8, 12, 12, 64, true, false});
    check({2, 60, 2, 8, 12, 12, 64, false, true}, 0.3);
    check({2, 60, 2, 8, 12, 12, 64, false, false});
    check({3, 2, 2, 64, 4});
    check({1, 1, 1, 16, 4});
  });
}

TEST(Disentangled_attention_kernel, More_queries_than_meet_a_block_of_keys_together) {
  const Size size{1, 1000, 1, 4, 24, 24, 512};
  check(size, 0, mask_of(size, 130, 990));
}

TEST(Disentangled_attention_kernel, Not_a_sample_has_no_gradient) {
  for (const bool has_pos_key : {true, false}) {
    const OneKernel one = forward({0, 5, 2, 4, 3, 0, 0, has_pos_key, true});
    const KernelOutputs gradients = run_on_cpu(backward(one, run_on_cpu(one, 1)), 1);
    EXPECT_EQ(gradients[3], std::vector<double>(has_pos_key ? 6 * 8 : 0, 0.0));
    EXPECT_EQ(gradients[4], std::vector<double>(6 * 8, 0.0));
  }
}

// The first `tokens` rows of every sample of a (B, T, E) tensor, or zeros behind them.
std::vector<double> resize(const std::vector<double>& x, const Size& from, int64_t tokens) {
  const auto width = static_cast<size_t>(from.width());
  std::vector<double> y;
  for (int64_t b = 0; b < from.samples; ++b) {
    const auto first =
        x.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(b * from.tokens) * width);
    const auto kept =
        static_cast<std::ptrdiff_t>(static_cast<size_t>(std::min(tokens, from.tokens)) * width);
    y.insert(y.end(), first, first + kept);
    y.resize(static_cast<size_t>((b + 1) * tokens) * width, 0.0);
  }
  return y;
}

TEST(Disentangled_attention_kernel, Padding_changes_no_bit) {
  const Size tight{2, 37, 2, 20, 8, 8, 24};
  for (const int64_t padded_tokens : {48, 128, 300}) {
    SCOPED_TRACE(padded_tokens);
    Size padded = tight;
    padded.tokens = padded_tokens;
    const OneKernel one = forward(tight, 0.1);
    std::vector<double> mask;
    for (int64_t i = 0; i < 2 * padded_tokens; ++i)
      mask.push_back(i % padded_tokens < tight.tokens ? 1 : 0);
    OneKernel longer = forward(padded, 0.1, mask);
    for (size_t i = 0; i < 3; ++i) longer.data[i] = resize(one.data[i], tight, padded_tokens);
    const KernelOutputs outputs = run_on_cpu(one, 1);
    const KernelOutputs longer_outputs = run_on_cpu(longer, 1);
    EXPECT_TRUE(resize(longer_outputs[0], padded, tight.tokens) == outputs[0]);
    EXPECT_TRUE(resize(outputs[0], tight, padded_tokens) == longer_outputs[0]);
    const std::vector<double> diff_o = OneKernel("").add_normal(one.types[0].shape).data[0];
    const KernelOutputs gradients = run_on_cpu(backward(one, outputs, diff_o), 1);
    const KernelOutputs longer_gradients =
        run_on_cpu(backward(longer, longer_outputs, resize(diff_o, tight, padded_tokens)), 1);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(resize(gradients[i], tight, padded_tokens) == longer_gradients[i])
          << "gradient " << i;
    }
    for (const size_t i : {3U, 4U}) EXPECT_TRUE(gradients[i] == longer_gradients[i]) << i;
  }
}

TEST(Disentangled_attention_kernel, Not_a_number_is_not_hidden) {
  const Size size{1, 20, 1, 8, 6};
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    OneKernel one = forward(size);
    one.data[1][5 * 8 + 2] = std::nan("");
    const KernelOutputs outputs = run_on_cpu(one, 1);
    for (const double o : outputs[0]) EXPECT_TRUE(std::isnan(o));
  });
}

TEST(Disentangled_attention_kernel, Scratch_holds_no_square_of_tokens) {
  const auto scratch = [](const OneKernel& one) {
    return make_cpu_backend({.threads = 2, .profile = default_profile()})
        ->select(one.spec())
        .scratch_bytes;
  };
  const auto of = [](const Size& size) {
    OneKernel one(
        "disentangled_attention",
        {{"heads", size.heads}, {"buckets", size.buckets}, {"max_distance", size.max_distance}});
    OneKernel grad("disentangled_attention_grad", one.attrs);
    const TensorType x{DType::f32, {size.samples, size.tokens, size.width()}};
    const TensorType table{DType::f32, {2 * size.span, size.width()}};
    one.add(x, {}).add(x, {}).add(x, {}).add(table, {}).add(table, {}).add_absent().add_absent();
    for (int i = 0; i < 4; ++i) grad.add(x, {});
    grad.add({DType::f32, {size.samples, size.heads, size.tokens}}, {}).add(x, {});
    grad.add(table, {}).add(table, {}).add_absent().add_absent();
    return std::pair{one, grad};
  };
  const auto [one, grad] = of({8, 512, 12, 64, 256, 256, 512});
  EXPECT_LT(scratch(one), int64_t{2} * 1024 * 1024);
  EXPECT_LT(scratch(grad), int64_t{2} * 2112 * 1024);
  const auto [long_one, long_grad] = of({1, 65536, 1, 64, 65536});
  EXPECT_LT(scratch(long_one), int64_t{3} * 1024 * 1024);
  EXPECT_LT(scratch(long_grad), int64_t{72} * 1024 * 1024);  // the tables' gradients are 64 MiB
}

}  // namespace
}  // namespace snug
