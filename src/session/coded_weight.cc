// SPDX-License-Identifier: Apache-2.0
#include "session/coded_weight.h"

#include <algorithm>
#include <vector>

#include "base/half.h"
#include "compile/weight_storage.h"
#include "ops/coded/coded.h"

namespace snug::session {
namespace {

/// Rows of a weight, or the elements that they are.
struct CodedRows {
  const TensorType& type;
  int64_t columns;
  int64_t first_row;
  int64_t first;  // element
  int64_t count;  // elements

  CodedRows(const Engine& engine, const std::string& name, int64_t row, int64_t elements)
      : type(engine.plan().residents.at(name).type),
        columns(type.shape[0] == 0 ? 0 : element_count(type) / type.shape[0]),
        first_row(row),
        first(row * columns),
        count(elements) {}
  /// Where the low parts of these elements stand in a weight in 24 bits, counted in bytes.
  [[nodiscard]] int64_t first_low() const { return 2 * element_count(type) + first; }
};

/// One row of a weight in 8 bits.
struct CodedRow {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

void write_codes(Engine& engine, const std::string& name, const CodedRows& rows,
                 std::span<const float> values) {
  const int64_t blocks = coded_blocks(rows.columns);
  CodedRow coded{.codes = std::vector<uint8_t>(static_cast<size_t>(rows.columns)),
                 .scales = std::vector<float>(static_cast<size_t>(blocks))};
  for (int64_t at = 0, row = rows.first_row; at < rows.count; at += rows.columns, ++row) {
    encode_coded_row(values.subspan(static_cast<size_t>(at), coded.codes.size()), coded.codes,
                     coded.scales);
    engine.write<uint8_t>(name, row * rows.columns, coded.codes);
    engine.write<float>(name + compile::kScalesSuffix, row * blocks, coded.scales);
  }
}

void read_codes(const Engine& engine, const std::string& name, const CodedRows& rows,
                std::span<float> values) {
  const int64_t blocks = coded_blocks(rows.columns);
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  for (int64_t at = 0, row = rows.first_row; at < rows.count; at += rows.columns, ++row) {
    decode_coded_row(
        engine.values<uint8_t>(name, row * rows.columns, rows.columns, codes),
        engine.values<float>(name + compile::kScalesSuffix, row * blocks, blocks, scales),
        values.subspan(static_cast<size_t>(at), static_cast<size_t>(rows.columns)));
  }
}

}  // namespace

bool is_coded_weight(const Engine& engine, const std::string& name) {
  if (!engine.has(name)) return false;
  const runtime::ResidentLayout::Entry& entry = engine.plan().residents.at(name);
  return compile::is_coded_weight(entry.kind, entry.type.dtype);
}

bool is_scales(const Engine& engine, const std::string& name) {
  const std::string suffix = compile::kScalesSuffix;
  return name.ends_with(suffix) &&
         is_coded_weight(engine, name.substr(0, name.size() - suffix.size()));
}

void write_coded_rows(Engine& engine, const std::string& name, int64_t first_row,
                      std::span<const float> values) {
  const CodedRows rows(engine, name, first_row, std::ssize(values));
  if (rows.type.dtype == DType::u8) return write_codes(engine, name, rows, values);
  const auto write = [&]<class T>(int64_t first, T (*coded)(float)) {
    engine.fill_parts<T>(name, first, rows.count, [&](int64_t at, std::span<T> to) {
      const auto from = values.subspan(static_cast<size_t>(at), to.size());
      std::transform(from.begin(), from.end(), to.begin(), coded);
    });
  };
  if (rows.type.dtype == DType::bf16) return write(rows.first, to_bf16);
  write(
      rows.first, +[](float x) { return to_bf16x8(x).high; });
  write(
      rows.first_low(), +[](float x) { return to_bf16x8(x).low; });
}

void read_coded_rows(const Engine& engine, const std::string& name, int64_t first_row,
                     std::span<float> values) {
  const CodedRows rows(engine, name, first_row, std::ssize(values));
  if (rows.type.dtype == DType::u8) return read_codes(engine, name, rows, values);
  std::vector<std::byte> buffer;
  if (rows.type.dtype == DType::bf16) {
    engine.for_parts<Bf16>(name, rows.first, rows.count,
                           [&](int64_t at, std::span<const Bf16> from) {
                             std::transform(from.begin(), from.end(), values.begin() + at,
                                            [](Bf16 x) { return to_f32(x); });
                           });
    return;
  }
  engine.for_parts<uint16_t>(
      name, rows.first, rows.count, [&](int64_t at, std::span<const uint16_t> high) {
        const auto low =
            engine.values<int8_t>(name, rows.first_low() + at, std::ssize(high), buffer);
        for (size_t i = 0; i < high.size(); ++i)
          values[static_cast<size_t>(at) + i] = to_f32(Bf16x8{high[i], low[i]});
      });
}

}  // namespace snug::session
