// SPDX-License-Identifier: Apache-2.0
#include "session/frozen_weight.h"

#include <algorithm>

#include "base/half.h"
#include "ops/frozen/frozen.h"
#include "programs/frozen_storage.h"

namespace snug::train {
namespace {

/// `each` is given the row of numbers, and the row of codes and scales or that of halves.
template <class Value, class Coded, class Halves>
void for_rows(const Engine& engine, const std::string& name, int64_t first_row,
              std::span<Value> values, Coded coded, Halves halves) {
  const TensorType& type = engine.plan().residents.at(name).type;
  const auto columns = static_cast<size_t>(type.shape[1]);
  const auto blocks = static_cast<size_t>(frozen_blocks(type.shape[1]));
  auto row = static_cast<size_t>(first_row);
  for (size_t at = 0; at < values.size(); at += columns, ++row) {
    const std::span<Value> own = values.subspan(at, columns);
    if (type.dtype == DType::u8) {
      coded(own, engine.write<uint8_t>(name).subspan(row * columns, columns),
            engine.write<float>(name + kScalesSuffix).subspan(row * blocks, blocks));
    } else {
      halves(own, engine.write<Bf16>(name).subspan(row * columns, columns));
    }
  }
}

}  // namespace

bool is_frozen_code(const Engine& engine, const std::string& name) {
  if (!engine.has(name)) return false;
  const ResidentLayout::Entry& entry = engine.plan().residents.at(name);
  return is_frozen_code(entry.kind, entry.type.dtype);
}

bool is_frozen_scales(const Engine& engine, const std::string& name) {
  const std::string suffix = kScalesSuffix;
  return name.ends_with(suffix) &&
         is_frozen_code(engine, name.substr(0, name.size() - suffix.size()));
}

void write_frozen_rows(const Engine& engine, const std::string& name, int64_t first_row,
                       std::span<const float> values) {
  for_rows(engine, name, first_row, values, encode_frozen_row,
           [](std::span<const float> from, std::span<Bf16> to) {
             std::transform(from.begin(), from.end(), to.begin(), to_bf16);
           });
}

void read_frozen_rows(const Engine& engine, const std::string& name, int64_t first_row,
                      std::span<float> values) {
  for_rows(
      engine, name, first_row, values,
      [](std::span<float> to, std::span<uint8_t> codes, std::span<float> scales) {
        decode_frozen_row(codes, scales, to);
      },
      [](std::span<float> to, std::span<Bf16> from) {
        std::transform(from.begin(), from.end(), to.begin(), [](Bf16 x) { return to_f32(x); });
      });
}

}  // namespace snug::train
