// SPDX-License-Identifier: Apache-2.0
#include "session/coded_weight.h"

#include <algorithm>

#include "base/half.h"
#include "compile/weight_storage.h"
#include "ops/coded/coded.h"

namespace snug::train {
namespace {

/// Calls coded(row, codes, scales) for rows in 8 bits, else floats(values, rows, at): `values` are
/// the elements from `at` on of a weight in 16 or 24 bits.
template <class Value, class Coded, class Floats>
void for_rows(const Engine& engine, const std::string& name, int64_t first_row,
              std::span<Value> values, Coded coded, Floats floats) {
  const TensorType& type = engine.plan().residents.at(name).type;
  const auto columns =
      static_cast<size_t>(type.shape[0] == 0 ? 0 : element_count(type) / type.shape[0]);
  auto row = static_cast<size_t>(first_row);
  if (type.dtype != DType::u8) return floats(type, row * columns);
  const auto blocks = static_cast<size_t>(coded_blocks(type.shape[1]));
  for (size_t at = 0; at < values.size(); at += columns, ++row) {
    coded(values.subspan(at, columns), engine.write<uint8_t>(name).subspan(row * columns, columns),
          engine.write<float>(name + kScalesSuffix).subspan(row * blocks, blocks));
  }
}

/// The two parts of a weight in 24 bits, from an element on.
struct Parts {
  std::span<uint16_t> high;
  std::span<int8_t> low;

  Parts(std::span<std::byte> bytes, size_t elements, size_t at)
      : high(reinterpret_cast<uint16_t*>(bytes.data()) + at, elements - at),
        low(reinterpret_cast<int8_t*>(bytes.data() + 2 * elements) + at, elements - at) {}
};

}  // namespace

bool is_coded_weight(const Engine& engine, const std::string& name) {
  if (!engine.has(name)) return false;
  const ResidentLayout::Entry& entry = engine.plan().residents.at(name);
  return is_coded_weight(entry.kind, entry.type.dtype);
}

bool is_scales(const Engine& engine, const std::string& name) {
  const std::string suffix = kScalesSuffix;
  return name.ends_with(suffix) &&
         is_coded_weight(engine, name.substr(0, name.size() - suffix.size()));
}

void write_coded_rows(const Engine& engine, const std::string& name, int64_t first_row,
                      std::span<const float> values) {
  const auto floats = [&](const TensorType& type, size_t at) {
    if (type.dtype == DType::bf16) {
      std::transform(values.begin(), values.end(), engine.write<Bf16>(name).subspan(at).begin(),
                     to_bf16);
      return;
    }
    const Parts parts(engine.write<std::byte>(name), static_cast<size_t>(element_count(type)), at);
    for (size_t i = 0; i < values.size(); ++i) {
      const Bf16x8 both = to_bf16x8(values[i]);
      parts.high[i] = both.high;
      parts.low[i] = both.low;
    }
  };
  for_rows(engine, name, first_row, values, encode_coded_row, floats);
}

void read_coded_rows(const Engine& engine, const std::string& name, int64_t first_row,
                     std::span<float> values) {
  const auto floats = [&](const TensorType& type, size_t at) {
    if (type.dtype == DType::bf16) {
      const auto own = engine.write<Bf16>(name).subspan(at, values.size());
      std::transform(own.begin(), own.end(), values.begin(), [](Bf16 x) { return to_f32(x); });
      return;
    }
    const Parts parts(engine.write<std::byte>(name), static_cast<size_t>(element_count(type)), at);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = to_f32(Bf16x8{parts.high[i], parts.low[i]});
  };
  for_rows(
      engine, name, first_row, values,
      [](std::span<float> to, std::span<uint8_t> codes, std::span<float> scales) {
        decode_coded_row(codes, scales, to);
      },
      floats);
}

}  // namespace snug::train
