// SPDX-License-Identifier: Apache-2.0
// Weights that are stored as f32, bf16 or bf16x8, as rows of f32 and back. A step of an optimizer
// writes them by stochastic rounding, keyed like dropout: a weight's bits are a function of seed,
// update, weight and element, whatever the plan and the threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snug/types.h"

namespace snug {

/// What stochastic rounding draws from.
struct RoundingKey {
  uint64_t seed = 0;
  uint32_t update = 0;
  uint32_t stream = 0;  // of the weight
};

/// y = x in f32, or x rounded to the type: elements [at, at + n) of a tensor of `count` elements.
using ReadWeights = void (*)(const std::byte* x, int64_t count, int64_t at, int64_t n, float* y);
using RoundWeights = void (*)(const float* x, RoundingKey key, int64_t count, int64_t at, int64_t n,
                              std::byte* y);

class WeightRows {
 public:
  explicit WeightRows(const TensorType& type);

  /// Stored in fewer bits than f32.
  [[nodiscard]] bool is_coded() const { return read_ != nullptr; }
  /// Elements [at, at + n): where they lie, or a copy in `buffer`.
  [[nodiscard]] const float* read(const std::byte* data, int64_t at, int64_t n,
                                  float* buffer) const {
    if (!is_coded()) return reinterpret_cast<const float*>(data) + at;
    read_(data, count_, at, n, buffer);
    return buffer;
  }
  /// Where elements from `at` on are computed: their own place, or `buffer`.
  [[nodiscard]] float* place(std::byte* data, int64_t at, float* buffer) const {
    return is_coded() ? buffer : reinterpret_cast<float*>(data) + at;
  }
  /// Stores what was computed in `buffer`.
  void round(const float* buffer, RoundingKey key, std::byte* data, int64_t at, int64_t n) const {
    if (is_coded()) round_(buffer, key, count_, at, n, data);
  }

 private:
  int64_t count_;
  ReadWeights read_ = nullptr;
  RoundWeights round_ = nullptr;
};

}  // namespace snug
