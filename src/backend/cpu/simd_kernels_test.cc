// SPDX-License-Identifier: Apache-2.0
// What the harness over op cases (tests/op) does not show of the SIMD kernels: accuracy over whole
// ranges, special values, bits of dropout against the scalar generator, and shapes long enough for
// several threads, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "backend/cpu/one_kernel_test.h"
#include "ops/dropout/dropout.h"

namespace snug {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> grid(double low, double high, int count) {
  std::vector<double> values;
  for (int i = 0; i <= count; ++i)
    values.push_back(static_cast<double>(static_cast<float>(low + (high - low) * i / count)));
  return values;
}

OneKernel unary(const std::string& op, const std::vector<double>& x, Attrs attrs = {}) {
  return OneKernel(op, std::move(attrs)).add({DType::f32, {static_cast<int64_t>(x.size())}}, x);
}

// Largest relative error against `exact`, over results that are normal numbers.
double worst_error(const OneKernel& one, const std::function<double(double)>& exact) {
  const std::vector<double> y = run_on_cpu(one, 1)[0];
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double want = exact(one.data[0][i]);
    if (std::abs(want) < 1e-36) continue;
    const double error = std::abs(y[i] / want - 1);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

TEST(Simd_math, Is_accurate_over_the_whole_range) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const auto fine = grid(-12, 12, 200001);
    // Without fused multiplication the tail of gelu pays for one more rounding of x^2.
    const double tail = target == "SCALAR" ? 5e-6 : 1e-6;
    EXPECT_LT(worst_error(unary("gelu", fine),
                          [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }),
              tail);
    EXPECT_LT(worst_error(unary("erf", fine), [](double x) { return std::erf(x); }), 4e-7);
    EXPECT_LT(worst_error(unary("tanh", fine), [](double x) { return std::tanh(x); }), 4e-7);
    EXPECT_LT(worst_error(unary("sigmoid", fine), [](double x) { return 1 / (1 + std::exp(-x)); }),
              4e-7);
    EXPECT_LT(
        worst_error(unary("exp", grid(-80, 88.7, 100001)), [](double x) { return std::exp(x); }),
        3e-7);
    EXPECT_LT(
        worst_error(unary("log", grid(1e-3, 30, 100001)), [](double x) { return std::log(x); }),
        4e-7);
    EXPECT_LT(
        worst_error(unary("log", {1e-40, 1e-30, 1e30, 3e38}),
                    [](double x) { return std::log(static_cast<double>(static_cast<float>(x))); }),
        4e-7);
  });
}

TEST(Simd_math, Gelu_gradient_is_accurate_beside_its_zero) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const auto x = grid(-12, 12, 20001);
    OneKernel one = unary("gelu_grad", x);
    one.add(one.types[0], std::vector<double>(x.size(), 1.0));
    const auto found = run_on_cpu(one, 1)[0];
    const auto want = run_on_reference(one)[0];
    for (size_t i = 0; i < x.size(); ++i) ASSERT_LT(std::abs(found[i] - want[i]), 5e-7) << x[i];
  });
}

TEST(Simd_math, Special_values_are_what_they_should_be) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const auto at = [](const std::string& op, double x) {
      return run_on_cpu(unary(op, {x}), 1)[0][0];
    };
    EXPECT_EQ(at("exp", kInfinity), kInfinity);
    EXPECT_EQ(at("exp", 100), kInfinity);
    EXPECT_EQ(at("exp", -kInfinity), 0);
    EXPECT_EQ(at("exp", 0), 1);
    EXPECT_EQ(at("log", 0), -kInfinity);
    EXPECT_EQ(at("log", kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(at("log", -1)));
    EXPECT_EQ(at("log", 1), 0);
    EXPECT_EQ(at("tanh", -kInfinity), -1);
    EXPECT_EQ(at("erf", kInfinity), 1);
    EXPECT_EQ(at("sigmoid", -kInfinity), 0);
    EXPECT_EQ(at("sigmoid", kInfinity), 1);
    EXPECT_EQ(at("gelu", 100), 100);
    EXPECT_EQ(at("gelu", 0), 0);
    for (const char* op : {"exp", "log", "tanh", "erf", "sigmoid", "relu", "gelu", "sqrt", "neg"}) {
      EXPECT_TRUE(std::isnan(at(op, std::nan("")))) << op;
    }
  });
}

OneKernel dropout_of_ones(const Shape& shape, double rate, int64_t sample_axis) {
  OneKernel one("dropout", {{"rate", rate}, {"ordinal", int64_t{9}}, {"sample_axis", sample_axis}});
  one.add({DType::f32, shape}, std::vector<double>(static_cast<size_t>(element_count(shape)), 1.0));
  one.add({DType::i64, {3}}, {123456789012.0, 77, 5});
  return one;
}

TEST(Dropout_kernel, Draws_the_words_of_the_scalar_generator) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const double rate : {0.1, 0.5}) {
      for (const int64_t axis : {0, -1}) {
        for (const Shape& shape : {Shape{3, 133}, Shape{2, 4099}, Shape{5, 1}, Shape{1, 9000}}) {
          const auto y = run_on_cpu(dropout_of_ones(shape, rate, axis), 2)[0];
          const int64_t size = axis == 0 ? shape[1] : shape[0] * shape[1];
          for (size_t i = 0; i < y.size(); ++i) {
            const int64_t sample = static_cast<int64_t>(i) / size;
            const int64_t element = static_cast<int64_t>(i) % size;
            const auto words =
                dropout_words(element / 4, axis == 0 ? 5 + sample : 0, 77, 9, 123456789012);
            const bool is_kept = words[static_cast<size_t>(element % 4)] >= dropout_threshold(rate);
            ASSERT_EQ(y[i], is_kept ? static_cast<double>(static_cast<float>(1 / (1 - rate))) : 0)
                << i;
          }
        }
      }
    }
  });
}

// Shapes of several pieces, with odd ends.
std::vector<OneKernel> long_kernels() {
  std::vector<OneKernel> all;
  all.push_back(OneKernel("add").add_normal({70, 301}).add_normal({301}));
  all.push_back(OneKernel("mul").add_normal({9001}).add_normal({9001}));
  all.push_back(OneKernel("sub").add_normal({3, 1, 50, 7}).add_normal({40, 1, 7}));
  all.push_back(OneKernel("div").add_normal({5, 2000}).add_normal({5, 1}));
  all.push_back(OneKernel("gelu").add_normal({9001}, 3));
  all.push_back(OneKernel("gelu_grad").add_normal({9001}, 3).add_normal({9001}));
  all.push_back(OneKernel("where")
                    .add({DType::boolean, {9001}}, std::vector<double>(9001, 1.0))
                    .add_normal({9001})
                    .add_normal({1}));
  all.push_back(dropout_of_ones({3, 3001}, 0.3, 0));
  all.push_back(OneKernel("softmax").add_normal({37, 301}, 3));
  all.push_back(OneKernel("softmax", {{"axis", int64_t{1}}}).add_normal({3, 40, 77}, 3));
  all.push_back(OneKernel("softmax_grad").add_normal({37, 301}).add_normal({37, 301}));
  all.push_back(OneKernel("layer_norm").add_normal({200, 131}).add_normal({131}).add_normal({131}));
  all.push_back(OneKernel("layer_norm_grad")
                    .add_normal({700, 77})
                    .add_normal({77})
                    .add_normal({700}, 0.1)
                    .add({DType::f32, {700}}, std::vector<double>(700, 1.25))
                    .add_normal({700, 77}));
  all.push_back(OneKernel("relu_grad").add_normal({9001}).add_normal({9001}));
  const std::vector<double> variance(131, 1.5);
  all.push_back(
      OneKernel("batch_norm").add_normal({2700, 131}).add_normal({131}).add_normal({131}));
  all.push_back(OneKernel("batch_norm_grad")
                    .add_normal({2700, 131})
                    .add_normal({131})
                    .add_normal({131}, 0.1)
                    .add({DType::f32, {131}}, variance)
                    .add_normal({2700, 131}));
  all.push_back(OneKernel("batch_norm_inference")
                    .add_normal({300, 131})
                    .add_normal({131})
                    .add_normal({131})
                    .add_normal({131})
                    .add({DType::f32, {131}}, variance));
  using Ints = std::vector<int64_t>;
  const Attrs pooling = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  all.push_back(OneKernel("max_pool2d", pooling).add_normal({3, 15, 14, 131}));
  all.push_back(OneKernel("max_pool2d_grad", pooling)
                    .add_normal({3, 15, 14, 131})
                    .add_normal({3, 8, 7, 131}));
  std::vector<double> labels(90);
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = i % 7 == 0 ? -100.0 : static_cast<double>(i * 13 % 301);
  for (const char* op : {"softmax_cross_entropy", "softmax_cross_entropy_grad"}) {
    OneKernel loss(op, {{"label_smoothing", 0.1}});
    loss.add_normal({90, 301}, 3)
        .add({DType::i32, {90}}, labels)
        .add_normal({90})
        .add({DType::f32, {}}, {0.125});
    if (loss.op == "softmax_cross_entropy_grad") {
      loss.add({DType::f32, {90}}, std::vector<double>(90, 10.0)).add({DType::f32, {}}, {2});
    }
    all.push_back(loss);
  }
  const std::vector<double> mask(37, 1.0);
  all.push_back(OneKernel("lstm_cell")
                    .add_normal({37, 4 * 131})
                    .add_normal({37, 131})
                    .add_normal({37, 131})
                    .add({DType::boolean, {37}}, mask));
  all.push_back(OneKernel("lstm_cell_grad")
                    .add_normal({37, 4 * 131})
                    .add_normal({37, 131})
                    .add({DType::boolean, {37}}, mask)
                    .add_normal({37, 131})
                    .add_normal({37, 131}));
  all.push_back(OneKernel("mean_squared_error")
                    .add_normal({40, 5, 60})
                    .add_normal({40, 5, 60})
                    .add_normal({40})
                    .add({DType::f32, {}}, {0.5}));
  return all;
}

TEST(Simd_kernel, Long_shapes_agree_with_the_reference_and_between_thread_counts) {
  for_each_target([](const std::string& target) {
    for (const OneKernel& one : long_kernels()) {
      SCOPED_TRACE(target + " " + one.op);
      const KernelOutputs found = run_on_cpu(one, 1);
      const KernelOutputs want = run_on_reference(one);
      ASSERT_EQ(found.size(), want.size());
      for (size_t o = 0; o < want.size(); ++o) {
        double scale = 1e-30;
        double worst = 0;
        for (size_t i = 0; i < want[o].size(); ++i) {
          scale = std::max(scale, std::abs(want[o][i]));
          const double error = std::abs(found[o][i] - want[o][i]);
          if (!(error <= worst)) worst = error;
        }
        EXPECT_LT(worst, 2e-6 * scale) << "output " << o;
      }
      for (const int threads : {2, 3, 8})
        EXPECT_TRUE(run_on_cpu(one, threads) == found) << threads << " threads";
    }
  });
}

TEST(Simd_kernel, A_nan_wins_every_maximum) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<int64_t> window = {1, 2};
    OneKernel pool("max_pool2d", {{"kernel", window}, {"stride", window}});
    pool.add({DType::f32, {1, 1, 6, 1}}, {1, nan, nan, 2, -kInfinity, -kInfinity});
    const auto y = run_on_cpu(pool, 1)[0];
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
    EXPECT_EQ(y[2], -kInfinity);
  });
}

TEST(Simd_kernel, Overwriting_an_operand_changes_no_bit) {
  int tried = 0;
  for (const OneKernel& one : long_kernels()) {
    const NodeSpec spec = one.spec();
    if (spec.op->alias->kind != AliasKind::may_overwrite) continue;
    const KernelOutputs apart = run_on_cpu(one, 2);
    for (const auto& [output, input] : spec.op->alias->pairs) {
      const auto index = static_cast<size_t>(input);
      if (byte_count(one.types[index]) != byte_count(spec.outputs[static_cast<size_t>(output)]))
        continue;
      EXPECT_TRUE(run_on_cpu(one, 2, {output, input}) == apart)
          << one.op << " over input " << input;
      ++tried;
    }
  }
  EXPECT_GT(tried, 20);
}

TEST(Lstm_cell_kernel, Gradients_over_gradients_are_right_for_rows_that_have_ended) {
  OneKernel one("lstm_cell_grad");
  std::vector<double> mask(37, 1.0);
  for (size_t row = 0; row < mask.size(); row += 3) mask[row] = 0;
  one.add_normal({37, 4 * 131})
      .add_normal({37, 131})
      .add({DType::boolean, {37}}, mask)
      .add_normal({37, 131})
      .add_normal({37, 131});
  const KernelOutputs apart = run_on_cpu(one, 2);
  for (const auto& pair : one.spec().op->alias->pairs)
    EXPECT_TRUE(run_on_cpu(one, 2, pair) == apart) << "over input " << pair.second;
}

TEST(Softmax_cross_entropy_kernel, Keeps_the_digits_of_a_confident_row) {
  // The label's logit is 40 above the others: the loss is 2 e^-40 and the gradient at the label is
  // minus that.
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    OneKernel one("softmax_cross_entropy");
    one.add({DType::f32, {1, 3}}, {0, 40, 0})
        .add({DType::i32, {1}}, {1})
        .add({DType::f32, {1}}, {1})
        .add({DType::f32, {}}, {1});
    const KernelOutputs loss = run_on_cpu(one, 1);
    EXPECT_NEAR(loss[0][0] / (2 * std::exp(-40.0)), 1, 1e-5);
    one.op = "softmax_cross_entropy_grad";
    one.add({DType::f32, {1}}, loss[1]).add({DType::f32, {}}, {1});
    EXPECT_NEAR(run_on_cpu(one, 1)[0][1] / (-2 * std::exp(-40.0)), 1, 1e-5);
  });
}

}  // namespace
}  // namespace snug
