// SPDX-License-Identifier: Apache-2.0
// Attention against the reference on sizes that cross its blocks of keys and queries, on every
// instruction set; and that padding changes no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "backend/cpu/one_kernel_test.h"
#include "backend/cpu/onednn.h"

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

std::vector<double> rounded_to_bf16(std::vector<double> values) {
  for (double& x : values) x = static_cast<double>(to_f32(to_bf16(static_cast<float>(x))));
  return values;
}

// The same with rows in 16 bits, of numbers that bf16 holds.
OneKernel in_16_bits(const OneKernel& one, DType half = DType::bf16) {
  OneKernel narrow(one.op, one.attrs);
  for (size_t i = 0; i < one.data.size(); ++i) {
    if (!one.types.has(i)) {
      narrow.add_absent();
    } else if (one.types[i].dtype == DType::f32) {
      narrow.add({half, one.types[i].shape}, rounded_to_bf16(one.data[i]));
    } else {
      narrow.add(one.types[i], one.data[i]);
    }
  }
  return narrow;
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

void check_padding(int64_t columns, int64_t window,
                   const std::function<OneKernel(const OneKernel&)>& stored) {
  const Size tight{1, 37, 2, columns};
  for (const int64_t padded_tokens : {48, 128, 300}) {
    SCOPED_TRACE(padded_tokens);
    const Size padded{1, padded_tokens, 2, columns};
    const OneKernel one = stored(forward(tight, 0.1, {}, window));
    std::vector<double> mask(static_cast<size_t>(padded_tokens), 0);
    std::fill_n(mask.begin(), tight.tokens, 1.0);
    OneKernel longer = stored(forward(padded, 0.1, mask, window));
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
  for (const int64_t columns : {20, 33, 64}) {
    for (const int64_t window : {0, 9, 80}) {
      check_padding(columns, window, [](const OneKernel& one) { return one; });
      check_padding(columns, window, [](const OneKernel& one) { return in_16_bits(one); });
    }
  }
}

// The samples [first, first + count) of a tensor whose first axis is that of samples.
std::vector<double> samples_of(const std::vector<double>& x, int64_t samples, int64_t first,
                               int64_t count) {
  const int64_t size = std::ssize(x) / samples;
  return {x.begin() + first * size, x.begin() + (first + count) * size};
}

// One op on all samples of `size`, and on those of a part of them.
void check_part(const OneKernel& whole, const KernelOutputs& outputs, const Size& size,
                int64_t first, int64_t count) {
  OneKernel part(whole.op, whole.attrs);
  for (size_t i = 0; i < whole.data.size(); ++i) {
    if (!whole.types.has(i)) {
      part.add_absent();
    } else if (whole.types[i].dtype == DType::i64) {  // seed, update, first slot
      part.add(whole.types[i],
               {whole.data[i][0], whole.data[i][1], whole.data[i][2] + static_cast<double>(first)});
    } else {
      TensorType type = whole.types[i];
      type.shape[0] = count;
      part.add(type, samples_of(whole.data[i], size.samples, first, count));
    }
  }
  const KernelOutputs found = run_on_cpu(part, 2);
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_TRUE(found[i] == samples_of(outputs[i], size.samples, first, count)) << "output " << i;
}

TEST(Attention_kernel, Micro_batches_change_no_bit) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t columns : {20, 40, 64}) {
      const Size size{5, 140, 2, columns};
      const OneKernel one = in_16_bits(forward(size, 0.1, prefix_mask(size, 133)));
      const KernelOutputs outputs = run_on_cpu(one, 2);
      const OneKernel grad =
          backward(one, outputs, in_16_bits(OneKernel("").add_normal(one.types[0].shape)).data[0]);
      const KernelOutputs gradients = run_on_cpu(grad, 2);
      for (const auto& [first, count] : {std::pair(0, 2), std::pair(2, 3), std::pair(4, 1)}) {
        check_part(one, outputs, size, first, count);
        check_part(grad, gradients, size, first, count);
      }
    }
  });
}

TEST(Attention_kernel, Not_a_number_is_not_hidden) {
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t columns : {8, 40}) {
      const Size size{1, 20, 1, columns};
      for (OneKernel one : {forward(size, 0, {}), in_16_bits(forward(size, 0, {}))}) {
        one.data[1][static_cast<size_t>(5 * columns + 2)] = std::nan("");
        const KernelOutputs outputs = run_on_cpu(one, 1);
        for (const double o : outputs[0]) EXPECT_TRUE(std::isnan(o));
      }
    }
  });
}

// Forward and gradient of one size on bf16 operands.
struct Bf16Run {
  OneKernel one{""};
  OneKernel grad{""};
  KernelOutputs outputs;
  KernelOutputs gradients;
};

// What the gradient reads is the same on every target: o and lse of the reference, as stored.
Bf16Run run_bf16(const Size& size, double rate, const std::vector<double>& mask, int64_t window,
                 int threads) {
  Bf16Run run;
  run.one = in_16_bits(forward(size, rate, mask, window));
  run.outputs = run_on_cpu(run.one, threads);
  KernelOutputs stored = run_on_reference(run.one);
  stored[0] = rounded_to_bf16(stored[0]);
  run.grad = backward(
      run.one, stored,
      rounded_to_bf16(OneKernel("")
                          .add_normal({size.samples, size.tokens, size.heads * size.columns})
                          .data[0]));
  run.gradients = run_on_cpu(run.grad, threads);
  return run;
}

// From what the reference has before it rounds to bf16 what it stores.
std::vector<double> distances(const OneKernel& one, const KernelOutputs& found) {
  OneKernel wide(one.op, one.attrs);
  for (size_t i = 0; i < one.data.size(); ++i) {
    if (!one.types.has(i)) {
      wide.add_absent();
    } else {
      const TensorType& type = one.types[i];
      wide.add({type.dtype == DType::bf16 ? DType::f32 : type.dtype, type.shape}, one.data[i]);
    }
  }
  const KernelOutputs want = run_on_reference(wide);
  std::vector<double> result;
  for (size_t i = 0; i < want.size(); ++i) result.push_back(distance(found[i], want[i]));
  return result;
}

// Products of bf16 against those of f32 on copies, which the other targets have.
void check_bf16(const Size& size, double rate, const std::vector<double>& mask,
                int64_t window = 0) {
  SCOPED_TRACE(std::to_string(size.tokens) + " tokens, " + std::to_string(size.columns) +
               " columns, window " + std::to_string(window));
  constexpr double kOneRounding = 0x1p-9;  // of bf16: of probabilities, of their gradients
  std::vector<double> of_f32[2];
  for_each_target([&](const std::string& target) {
    if (target != "AVX2") return;
    const Bf16Run run = run_bf16(size, rate, mask, window, 2);
    of_f32[0] = distances(run.one, run.outputs);
    of_f32[1] = distances(run.grad, run.gradients);
  });
  const Bf16Run run = run_bf16(size, rate, mask, window, 2);
  const std::vector<double> found[2] = {distances(run.one, run.outputs),
                                        distances(run.grad, run.gradients)};
  for (size_t op = 0; op < 2; ++op) {
    ASSERT_EQ(found[op].size(), of_f32[op].size());
    for (size_t i = 0; i < found[op].size(); ++i) {
      EXPECT_LE(found[op][i], 2 * of_f32[op][i] + kOneRounding) << "op " << op << " output " << i;
    }
  }
  EXPECT_LT(found[0][1], 3e-6);  // lse sums what was not rounded
  for (const int threads : {1, 3}) {
    const Bf16Run again = run_bf16(size, rate, mask, window, threads);
    EXPECT_TRUE(again.outputs == run.outputs) << threads << " threads";
    EXPECT_TRUE(again.gradients == run.gradients) << threads << " threads";
  }
}

std::string chosen_kernel(const OneKernel& one) {
  return make_cpu_backend({.threads = 2, .profile = default_profile()})->select(one.spec()).kernel;
}

TEST(Attention_kernel, Products_are_of_bf16_where_instructions_types_and_width_are) {
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    const std::string on_vectors = target == "AVX3" && has_bf16_products() ? "_products" : "";
    const std::string on_tiles = target == "AVX3" && has_bf16_tiles() ? "_tiles" : on_vectors;
    // Whatever the length, since rows have the same bits in shorter and longer batches.
    for (const int64_t tokens : {1, 5, 600}) {
      for (const int64_t columns : {8, 31, 32, 64, 300}) {
        SCOPED_TRACE(columns);
        const OneKernel plain = forward({1, tokens, 1, columns}, 0, {});
        const OneKernel narrow = in_16_bits(plain);
        const std::string& suffix = columns < 32 ? on_vectors : on_tiles;
        EXPECT_EQ(chosen_kernel(narrow), "simd:attention_bf16" + suffix);
        EXPECT_EQ(chosen_kernel(backward(narrow, {{}, {}}, {})),
                  "simd:attention_grad_bf16" + suffix);
        EXPECT_EQ(chosen_kernel(plain), "simd:attention");
        EXPECT_EQ(chosen_kernel(in_16_bits(plain, DType::f16)), "simd:attention_f16");
      }
    }
  });
}

TEST(Attention_kernel, Products_of_bf16_agree_with_the_reference) {
  if (!has_bf16_products()) GTEST_SKIP() << "this processor has none";
  for (const int64_t tokens : {1, 2, 5, 129}) {
    for (const int64_t columns : {1, 32, 33, 64, 80}) check_bf16({2, tokens, 2, columns}, 0, {});
  }
  const Size odd{2, 129, 2, 64};
  check_bf16(odd, 0.1, prefix_mask(odd, 45));
  check_bf16(odd, 0.2, prefix_mask(odd, 129));
  const Size several_blocks{2, 300, 1, 5};
  check_bf16(several_blocks, 0.1, prefix_mask(several_blocks, 290));
  const Size several_blocks_of_64{2, 300, 1, 64};
  check_bf16(several_blocks_of_64, 0.1, prefix_mask(several_blocks_of_64, 290));
  check_bf16(several_blocks_of_64, 0, prefix_mask(several_blocks_of_64, 70));
  const Size wide{1, 135, 1, 200};
  check_bf16(wide, 0.5, {});
  check_bf16({1, 40, 1, 256}, 0, {});
}

// Sizes that fill tiles, and those that just do not.
TEST(Attention_kernel, Products_on_tiles_agree_with_the_reference) {
  if (!has_bf16_tiles()) GTEST_SKIP() << "this processor has none";
  for (const int64_t tokens : {16, 31, 32, 33, 127, 128, 257})
    check_bf16({2, tokens, 2, 64}, 0, {});
  for (const int64_t columns : {32, 34, 63, 65, 96, 128, 129})
    check_bf16({1, 70, 2, columns}, 0, {});
  const Size size{2, 257, 2, 64};
  check_bf16(size, 0.2, prefix_mask(size, 257));
  check_bf16(size, 0.2, prefix_mask(size, 129), 40);
}

// What no query sees is not read, whatever is there: keys behind the last visible one, and other
// samples, whose rows come next in memory.
TEST(Attention_kernel, What_lies_behind_the_rows_of_a_sample_changes_no_bit) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t columns : {8, 33, 64}) {
      SCOPED_TRACE(columns);
      const Size size{2, 45, 2, columns};
      std::vector<double> mask(2 * 45, 1);
      std::fill(mask.begin() + 37, mask.begin() + 45, 0.0);
      const OneKernel one = in_16_bits(forward(size, 0.1, mask));
      const KernelOutputs outputs = run_on_cpu(one, 1);
      const OneKernel grad =
          backward(one, outputs, in_16_bits(OneKernel("").add_normal(one.types[0].shape)).data[0]);
      const KernelOutputs gradients = run_on_cpu(grad, 1);
      const auto plant = [&](OneKernel planted, std::initializer_list<size_t> operands) {
        const auto row = static_cast<size_t>(2 * columns);
        for (const size_t i : operands) {
          std::vector<double>& x = planted.data[i];
          if (i == 1 || i == 2) std::fill_n(x.begin() + 37 * row, 8 * row, std::nan(""));
          std::fill(x.begin() + 45 * row, x.end(), i == 0 ? HUGE_VAL : std::nan(""));
        }
        return run_on_cpu(planted, 1);
      };
      const auto expect_first_sample = [](const KernelOutputs& found, const KernelOutputs& want) {
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(samples_of(found[i], 2, 0, 1) == samples_of(want[i], 2, 0, 1)) << i;
      };
      expect_first_sample(plant(one, {0, 1, 2}), outputs);
      expect_first_sample(plant(grad, {0, 1, 2, 3, 5}), gradients);
    }
  });
}

// Scores of thousands: a softmax that is 1 at one key, with nothing to overflow.
TEST(Attention_kernel, Large_scores_stay_finite_in_bf16) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t columns : {8, 64}) {
      OneKernel one = in_16_bits(forward({1, 70, 1, columns}, 0, {}));
      for (double& q : one.data[0]) q *= 4096;
      const KernelOutputs outputs = run_on_cpu(one, 1);
      const KernelOutputs want = run_on_reference(one);
      EXPECT_LT(distance(outputs[0], want[0]), 1e-2);
      EXPECT_LT(distance(outputs[1], want[1]), 1e-5);
      const KernelOutputs gradients = run_on_cpu(backward(one, outputs, one.data[2]), 1);
      for (const std::vector<double>& gradient : gradients) {
        for (const double value : gradient) EXPECT_TRUE(std::isfinite(value));
      }
    }
  });
}

TEST(Attention_kernel, Windows_of_bf16_agree_with_the_reference) {
  if (!has_bf16_products()) GTEST_SKIP() << "this processor has none";
  for (const int64_t columns : {8, 48}) {
    const Size several_blocks{2, 600, 1, columns};
    for (const int64_t window : {1, 64, 100, 700}) {
      check_bf16(several_blocks, 0, {}, window);
      check_bf16(several_blocks, 0.1, prefix_mask(several_blocks, 410), window);
    }
  }
  check_bf16({1, 50, 1, 32}, 0, {}, 9);  // one block of keys
}

TEST(Attention_kernel, Where_every_key_is_masked_all_is_zero_in_bf16) {
  const Size size{2, 129, 1, 64};
  const Bf16Run run = run_bf16(size, 0.1, std::vector<double>(2 * 129, 0), 0, 2);
  for (const KernelOutputs& outputs : {run.outputs, run.gradients}) {
    for (const std::vector<double>& values : outputs)
      EXPECT_EQ(values, std::vector<double>(values.size(), 0.0));
  }
}

// The kernel on copies has the scratch that budgets were found with. A tile has 32 rows, so what
// runs on tiles needs as much for fewer tokens as for so many.
TEST(Attention_kernel, Products_of_bf16_need_no_more_scratch) {
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  for (const int64_t tokens : {1, 2, 15, 17, 64, 65, 128, 129, 400}) {
    for (const int64_t columns : {1, 2, 5, 16, 33, 64, 80, 130}) {
      for (const int64_t window : {0, 1, 70}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens, " + std::to_string(columns) + " columns");
        const auto scratch = [&](DType half, int64_t length) {
          const OneKernel one = forward({2, length, 2, columns}, 0, {}, window);
          const OneKernel narrow = in_16_bits(one, half);
          const OneKernel grad = backward(narrow, {{}, {}}, {});
          return std::pair(backend->select(narrow.spec()).scratch_bytes,
                           backend->select(grad.spec()).scratch_bytes);
        };
        const bool has_tiles = has_bf16_tiles() && columns >= 32;
        const auto products = scratch(DType::bf16, tokens);
        const auto copies = scratch(DType::f16, has_tiles ? std::max<int64_t>(tokens, 32) : tokens);
        EXPECT_LE(products.first, copies.first);
        EXPECT_LE(products.second, copies.second);
      }
    }
  }
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
