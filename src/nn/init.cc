// SPDX-License-Identifier: Apache-2.0
#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/philox.h"
#include "base/threads.h"

namespace snug::nn {
namespace {

// What lies beyond the cutoff is drawn again, from a counter with the attempt in its upper bits.
constexpr int kAttemptShift = 24;
constexpr uint32_t kMostAttempts = 1 << 8;
constexpr int64_t kParallelGrain = 1 << 14;  // elements

// FNV-1a: the parameter's name as the upper half of the counter. Fixed for ever, since weights
// depend on it.
uint64_t hash_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

double unit(uint32_t word) { return (static_cast<double>(word) + 0.5) * (1.0 / 4294967296.0); }

// Two normal variates from two words (Box and Muller).
void box_muller(uint32_t a, uint32_t b, double* out) {
  const double radius = std::sqrt(-2.0 * std::log(unit(a)));
  const double angle = 2.0 * std::numbers::pi * unit(b);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

// Four of the rule's, from four words.
void variates(const PhiloxCounter& words, const InitRule& rule, double* out) {
  if (rule.bound > 0) {
    for (size_t i = 0; i < words.size(); ++i) out[i] = rule.bound * (2 * unit(words[i]) - 1);
    return;
  }
  box_muller(words[0], words[1], out);
  box_muller(words[2], words[3], out + 2);
  for (size_t i = 0; i < words.size(); ++i) out[i] *= rule.deviation;
}

// The four elements that a counter makes.
void draw(uint64_t block, uint64_t stream, const InitRule& rule, uint64_t seed, double* out) {
  const auto words = [&](uint32_t attempt) {
    return philox4x32({static_cast<uint32_t>(block),
                       static_cast<uint32_t>(block >> 32) ^ attempt << kAttemptShift,
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                      seed);
  };
  variates(words(0), rule, out);
  if (rule.cutoff == 0) return;
  const double most = rule.cutoff * rule.deviation;
  for (size_t i = 0; i < 4; ++i) {
    for (uint32_t attempt = 1; attempt < kMostAttempts && std::abs(out[i]) > most; ++attempt) {
      double again[4];
      variates(words(attempt), rule, again);
      out[i] = again[i];
    }
    out[i] = std::clamp(out[i], -most, most);
  }
}

}  // namespace

void initialize(std::span<float> weight, const Shape& shape, const InitRule& rule,
                const std::string& parameter, uint64_t seed, int threads, int64_t first) {
  const auto count = static_cast<int64_t>(weight.size());
  SNUG_CHECK(first >= 0 && first + count <= element_count(shape), parameter);
  if (rule.deviation == 0 && rule.bound == 0) {
    std::fill(weight.begin(), weight.end(), static_cast<float>(rule.constant));
  } else {
    const uint64_t stream = hash_of(parameter);
    const int64_t begins = first / 4;  // counters: each makes four elements
    const int64_t ends = (first + count + 3) / 4;
    parallel_for(threads, ends - begins, kParallelGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t each = begins + begin; each < begins + end; ++each) {
        double values[4];
        draw(static_cast<uint64_t>(each), stream, rule, seed, values);
        for (int64_t i = std::max(4 * each, first); i < std::min(4 * each + 4, first + count); ++i)
          weight[static_cast<size_t>(i - first)] = static_cast<float>(values[i - 4 * each]);
      }
    });
  }
  const bool has_zero_row = rule.zero_row >= 0 && !shape.empty() && rule.zero_row < shape[0];
  if (!has_zero_row) return;
  const int64_t columns = element_count(shape) / shape[0];
  const int64_t begin = std::max<int64_t>(rule.zero_row * columns - first, 0);
  const int64_t end = std::min((rule.zero_row + 1) * columns - first, count);
  if (begin < end) std::fill(weight.begin() + begin, weight.begin() + end, 0.0f);
}

}  // namespace snug::nn
