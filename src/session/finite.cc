// SPDX-License-Identifier: Apache-2.0
#include "session/finite.h"

#include "base/id_vector.h"

namespace snug::train {
namespace {

// The bf16 of a weight in 16 or 24 bits: they come first.
std::span<const Bf16> halves_of(const Engine& engine, const std::string& name,
                                const TensorType& type) {
  return {reinterpret_cast<const Bf16*>(engine.read<std::byte>(name).data()),
          static_cast<size_t>(element_count(type))};
}

}  // namespace

std::optional<NotFinite> find_not_finite(const Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (!is_kept(entry.kind)) continue;
    if (entry.type.dtype == DType::bf16 || entry.type.dtype == DType::bf16x8) {
      const std::span<const Bf16> values = halves_of(engine, name, entry.type);
      const int64_t element = first_not_finite(values);
      if (element < 0) continue;
      return NotFinite{.name = name,
                       .element = element,
                       .value = static_cast<double>(to_f32(values[static_cast<size_t>(element)]))};
    }
    if (entry.type.dtype != DType::f32) continue;
    const IdSpan<const float> values = engine.read<float>(name);
    const int64_t element = first_not_finite(values);
    if (element >= 0) return NotFinite{.name = name, .element = element, .value = values[element]};
  }
  return std::nullopt;
}

}  // namespace snug::train
