// SPDX-License-Identifier: Apache-2.0
// What optimizer states in 8 bits cost in precision: AdamW for some updates with states in f32 and
// in codes, never brought together in between, where the gradients of a block span some decades.
// A line a codec and span: the correlation of all changes of weights with those of f32, and the
// mean difference in units of the learning rate, the worst of three seeds each. FlashOptim's codes
// (arXiv 2602.23349: groups of 32, companded m, linear roots of v) stand beside.
//
//   snug_bench_state_codes [UPDATES]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/philox.h"
#include "ops/optimizer/optimizer_codec.h"

namespace snug {
namespace {

constexpr int64_t kElements = 64 * kStateBlock;
constexpr double kRate = 1e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;

using Values = std::vector<double>;
/// A state as it is after it was stored and read back.
using Store = std::function<void(Values& state, bool is_square, int64_t update)>;

void store_coded(StateCodec codec, Values& state, bool is_square, int64_t update) {
  const StateForm form{codec, is_square};
  const uint32_t dither = state_dither(update, is_square ? 1 : 0);
  for (int64_t begin = 0; begin < kElements; begin += kStateBlock) {
    std::vector<float> block(state.begin() + begin, state.begin() + begin + kStateBlock);
    std::vector<uint8_t> codes(block.size());
    const float scale = encode_states(
        form, block, dither + static_cast<uint32_t>(begin) * kDitherElement, codes.data());
    decode_states(form, scale, codes, block.data());
    for (int64_t i = 0; i < kStateBlock; ++i) {
      state[static_cast<size_t>(begin + i)] = static_cast<double>(block[static_cast<size_t>(i)]);
    }
  }
}

void store_flash(Values& state, bool is_square, int64_t) {
  constexpr int64_t kGroup = 32;
  for (int64_t begin = 0; begin < kElements; begin += kGroup) {
    double* x = state.data() + begin;
    double scale = 0;
    for (int64_t i = 0; i < kGroup; ++i)
      scale = std::max(scale, is_square ? std::sqrt(x[i]) : std::abs(x[i]));
    if (scale == 0) continue;
    for (int64_t i = 0; i < kGroup; ++i) {
      if (is_square) {
        const double root = std::round(255 * std::sqrt(x[i]) / scale) / 255 * scale;
        x[i] = root * root;
      } else {
        const double share = x[i] / scale;
        const double code = std::round(127 * 2 * share / (1 + std::abs(share))) / 127;
        x[i] = code / (2 - std::abs(code)) * scale;
      }
    }
  }
}

struct Adamw {
  Values w = Values(kElements);
  Values m = Values(kElements);
  Values v = Values(kElements);

  void step(const Values& gradient, int64_t t, const Store& store) {
    const double first = 1 - std::pow(kBeta1, static_cast<double>(t));
    const double second = 1 - std::pow(kBeta2, static_cast<double>(t));
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * gradient[i];
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * gradient[i] * gradient[i];
      w[i] -= kRate * m[i] / first / (std::sqrt(v[i] / second) + kEpsilon);
    }
    if (!store) return;
    store(m, false, t);
    store(v, true, t);
  }
};

struct Result {
  double correlation = 1;
  double difference = 0;  // mean, of the learning rate
};

Result compare(const Store& store, double decades, uint64_t seed, int64_t updates) {
  PhiloxStream random(seed);
  Values scales(kElements);
  for (double& scale : scales) scale = 0.01 * std::pow(10, -decades * random.uniform());
  Adamw plain;
  Adamw coded;
  Values gradient(kElements);
  for (int64_t t = 1; t <= updates; ++t) {
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = random.normal() * scales[i];
    plain.step(gradient, t, {});
    coded.step(gradient, t, store);
  }
  double both = 0;
  double left = 0;
  double right = 0;
  Result result;
  for (size_t i = 0; i < gradient.size(); ++i) {
    both += plain.w[i] * coded.w[i];
    left += plain.w[i] * plain.w[i];
    right += coded.w[i] * coded.w[i];
    result.difference += std::abs(plain.w[i] - coded.w[i]) / kRate / kElements;
  }
  result.correlation = both / std::sqrt(left * right);
  return result;
}

}  // namespace
}  // namespace snug

int main(int argc, char** argv) {
  using namespace snug;
  const int64_t updates = argc > 1 ? std::max(1, std::atoi(argv[1])) : 50;
  const std::pair<const char*, Store> stores[] = {
      {"default",
       [](Values& x, bool square, int64_t t) { store_coded(StateCodec::adaptive, x, square, t); }},
      {"bnb",
       [](Values& x, bool square, int64_t t) { store_coded(StateCodec::bnb, x, square, t); }},
      {"FlashOptim", store_flash}};
  std::printf("%-12s %8s %12s %12s   (%lld updates)\n", "codec", "decades", "correlation",
              "difference", static_cast<long long>(updates));
  for (const auto& [name, store] : stores) {
    for (const double decades : {0.0, 1.0, 2.0, 3.0, 4.0}) {
      Result worst;
      for (const uint64_t seed : {1U, 2U, 3U}) {
        const Result each = compare(store, decades, seed, updates);
        worst.correlation = std::min(worst.correlation, each.correlation);
        worst.difference = std::max(worst.difference, each.difference);
      }
      std::printf("%-12s %8.0f %12.4f %12.3f\n", name, decades, worst.correlation,
                  worst.difference);
    }
  }
  return 0;
}
