// SPDX-License-Identifier: Apache-2.0
#include "session/finite.h"

#include <algorithm>
#include <bit>

#include "base/half.h"
#include "base/id_vector.h"

namespace snug::train {
namespace {

constexpr size_t kBlock = 4096;

uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }
uint32_t magnitude(Bf16 value) { return value.bits & 0x7fffu; }

// As large as `infinity`, without the sign: not finite.
template <class T>
int64_t first_not_below(uint32_t infinity, std::span<const T> values) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    uint32_t largest = 0;  // a maximum of integers: a loop that becomes vector code
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, magnitude(values[i]));
    if (largest < infinity) continue;
    for (size_t i = begin; i < end; ++i) {
      if (magnitude(values[i]) >= infinity) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

// The bf16 of a weight in 16 or 24 bits: they come first.
std::span<const Bf16> halves_of(const Engine& engine, const std::string& name,
                                const TensorType& type) {
  return {reinterpret_cast<const Bf16*>(engine.read<std::byte>(name).data()),
          static_cast<size_t>(element_count(type))};
}

}  // namespace

int64_t first_not_finite(std::span<const float> values) {
  return first_not_below(0x7f800000u, values);
}

std::string NotFinite::text() const {
  return "'" + name + "' is " + std::to_string(value) + " at element " + std::to_string(element);
}

std::optional<NotFinite> find_not_finite(const Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (!is_kept(entry.kind)) continue;
    if (entry.type.dtype == DType::bf16 || entry.type.dtype == DType::bf16x8) {
      const std::span<const Bf16> values = halves_of(engine, name, entry.type);
      const int64_t element = first_not_below(0x7f80u, values);
      if (element < 0) continue;
      return NotFinite{
          .name = name, .element = element, .value = to_f32(values[static_cast<size_t>(element)])};
    }
    if (entry.type.dtype != DType::f32) continue;
    const IdSpan<const float> values = engine.read<float>(name);
    const int64_t element = first_not_finite(values);
    if (element >= 0) return NotFinite{.name = name, .element = element, .value = values[element]};
  }
  return std::nullopt;
}

}  // namespace snug::train
