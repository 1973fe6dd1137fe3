// SPDX-License-Identifier: Apache-2.0
#include "session/finite.h"

namespace snug::session {
namespace {

double value_of(float value) { return static_cast<double>(value); }
double value_of(Bf16 value) { return static_cast<double>(to_f32(value)); }

template <class T>
std::optional<NotFinite> find_in(const Engine& engine, const std::string& name, int64_t count) {
  std::optional<NotFinite> found;
  engine.for_parts<T>(name, 0, count, [&](int64_t at, std::span<const T> values) {
    const int64_t element = found ? -1 : first_not_finite(values);
    if (element < 0) return;
    found = NotFinite{.name = name,
                      .element = at + element,
                      .value = value_of(values[static_cast<size_t>(element)])};
  });
  return found;
}

}  // namespace

std::optional<NotFinite> find_not_finite(const Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (!is_kept(entry.kind)) continue;
    const DType dtype = entry.type.dtype;
    const int64_t count = element_count(entry.type);
    std::optional<NotFinite> found;
    if (dtype == DType::f32) found = find_in<float>(engine, name, count);
    // The first 16 bits of an element tell, also where it has 24.
    if (dtype == DType::bf16 || dtype == DType::bf16x8) found = find_in<Bf16>(engine, name, count);
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace snug::session
