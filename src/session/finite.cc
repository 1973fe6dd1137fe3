// SPDX-License-Identifier: Apache-2.0
#include "session/finite.h"

#include <algorithm>
#include <cstring>

#include "base/id_vector.h"

namespace snug::train {
namespace {

constexpr uint32_t kAbsolute = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;  // as large as this, without the sign: not finite
constexpr size_t kBlock = 4096;

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & kAbsolute;
}

}  // namespace

int64_t first_not_finite(std::span<const float> values) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    uint32_t largest = 0;  // a maximum of integers: a loop that becomes vector code
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, bits_of(values[i]));
    if (largest < kInfinity) continue;
    for (size_t i = begin; i < end; ++i) {
      if (bits_of(values[i]) >= kInfinity) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

std::string NotFinite::text() const {
  return "'" + name + "' is " + std::to_string(value) + " at element " + std::to_string(element);
}

std::optional<NotFinite> find_not_finite(const Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (entry.type.dtype != DType::f32) continue;
    if (!is_kept(entry.kind)) continue;
    const IdSpan<const float> values = engine.read<float>(name);
    const int64_t element = first_not_finite(values);
    if (element >= 0) return NotFinite{.name = name, .element = element, .value = values[element]};
  }
  return std::nullopt;
}

}  // namespace snug::train
