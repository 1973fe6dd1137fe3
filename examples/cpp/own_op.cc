// SPDX-License-Identifier: Apache-2.0
// An op of this program: of every row the k largest values stay, the others become 0. It brings its
// kernel, its scratch and its gradient, and is planned like any other op.
//   ./own_op [memory [updates]]
#include <snug/snug.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

namespace {

constexpr int64_t kRows = 32, kFeatures = 16, kWidth = 256;

std::shared_ptr<const snug::CustomOp> keep_largest() {
  snug::CustomOp op;
  op.name = "keep_largest";
  op.inputs = {"x"};
  op.attributes = {{"k", int64_t{1}}};
  op.infer = [](std::span<const snug::TensorType> inputs, const snug::Attrs& attributes) {
    const snug::TensorType& x = inputs[0];
    if (x.dtype != snug::DType::f32 || x.shape.empty() || attributes.int64("k") < 1 ||
        attributes.int64("k") > x.shape.back())
      throw snug::Error(snug::ErrorCode::shape_mismatch, "keep_largest",
                        "k values of f32 rows, not " + snug::to_string(x));
    return std::vector{x};
  };
  op.scratch_bytes = [](std::span<const snug::TensorType> inputs, const snug::Attrs&) {
    return inputs[0].shape.back() * static_cast<int64_t>(sizeof(float));
  };
  op.flops = [](std::span<const snug::TensorType> inputs, const snug::Attrs&) {
    return 8.0 * static_cast<double>(snug::element_count(inputs[0]));
  };
  op.run = [](const snug::OpCall& call) {
    const auto width = static_cast<size_t>(call.input_types[0].shape.back());
    const auto k = static_cast<size_t>(call.attributes.int64("k"));
    const std::span<const float> x = call.input<float>(0);
    const std::span<float> y = call.output<float>();
    const std::span<float> sorted(reinterpret_cast<float*>(call.scratch), width);
    for (size_t row = 0; row < x.size(); row += width) {
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(row), width, sorted.begin());
      std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k - 1),
                       sorted.end(), std::greater<>());
      for (size_t i = row; i < row + width; ++i) y[i] = x[i] >= sorted[k - 1] ? x[i] : 0.0F;
    }
  };
  op.gradient = [](const snug::GradientCall& call) {
    const snug::Tensor zero = snug::fill(call.builder, 0, {});
    return std::vector{where(not_equal(call.outputs[0], zero), call.gradients[0], zero)};
  };
  return std::make_shared<const snug::CustomOp>(std::move(op));
}

void network(snug::NetworkBuilder& b) {
  snug::Tensor x = linear(b, "in", b.input("x", {kFeatures}), kWidth);
  for (int i = 0; i < 4; ++i) {
    const snug::Scope scope(b, "block." + std::to_string(i));
    const snug::Tensor inner = linear(b, "up", layer_norm(b, "norm", x), kWidth);
    x = x + linear(b, "down", b.op1("keep_largest", {inner}, {{"k", int64_t{32}}}), kWidth);
  }
  const snug::Tensor y = linear(b, "out", x, 1);
  b.output("y", y);
  b.minimize(mean_squared_error(b, y, b.input("wanted", {1})));
}

struct Data {
  std::vector<float> x, wanted;
  explicit Data(std::mt19937& random) {
    const auto draw = [&] { return (static_cast<float>(random() % 2001) - 1000) * 0.0017F; };
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kFeatures; ++i) x.push_back(draw());
      const float* own = x.data() + row * kFeatures;
      wanted.push_back(own[0] * own[1] + (own[2] > 0 ? own[3] : -own[3]));
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows);
    return rows.add("x", std::span(x)).add("wanted", std::span(wanted));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int updates = argc > 2 ? std::atoi(argv[2]) : 300;
  snug::Network own("own_op", network);
  own.add(keep_largest());
  snug::Session session(own, {.batch_rows = kRows,
                              .memory = snug::parse_memory(argc > 1 ? argv[1] : "16MiB"),
                              .micro_batch_size = 8});
  std::printf("%s\n", session.plan().to_text().c_str());
  std::mt19937 random(1);
  double first = 0, last = 0;
  for (int i = 0; i < updates; ++i) {
    const snug::StepResult step = session.step(Data(random).rows());
    if (step.update == 1) first = step.loss;
    last = i < updates - 20 ? 0 : last + step.loss / 20;
  }
  std::printf("loss %.9g before, %.9g after\n", first, last);
  std::printf("planned arena %lld, measured %lld bytes\n",
              static_cast<long long>(session.plan().arena_bytes),
              static_cast<long long>(session.measured_arena_bytes()));
  return argc > 2 || last < 0.6 * first ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
