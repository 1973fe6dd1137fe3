// SPDX-License-Identifier: Apache-2.0
// What the tests of products share: operands that are drawn, scratch that is watched, bits
// compared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/philox.h"

namespace snug {

inline std::vector<float> draw(int64_t count, uint64_t stream, float scale = 1) {
  PhiloxStream random(11, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = scale * static_cast<float>(random.normal());
  return values;
}
inline std::vector<Bf16> halves(const std::vector<float>& values) {
  std::vector<Bf16> stored;
  for (const float value : values) stored.push_back(to_bf16(value));
  return stored;
}

inline bool is_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Scratch with bytes behind it that nothing may write.
class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : bytes_(bytes), memory_(static_cast<size_t>(bytes) + 128, kPattern) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64;
  }
  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(data_); }
  [[nodiscard]] bool is_intact() const {
    const unsigned char* const end = memory_.data() + memory_.size();
    return std::all_of(static_cast<const unsigned char*>(data_) + bytes_, end,
                       [](unsigned char byte) { return byte == kPattern; });
  }

 private:
  static constexpr unsigned char kPattern = 0xA5;
  int64_t bytes_;
  std::vector<unsigned char> memory_;
  unsigned char* data_;
};

}  // namespace snug
