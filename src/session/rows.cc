// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>

#include "snug/error.h"
#include "snug/session.h"

namespace snug {

namespace {

void fill_up(std::span<std::byte> bytes, const RowSlot& slot) {
  std::memset(bytes.data(), 0, bytes.size());
  if (slot.padding == 0) return;
  for (size_t at = 0; at < bytes.size(); at += sizeof(slot.padding))
    std::memcpy(bytes.data() + at, &slot.padding, sizeof(slot.padding));
}

}  // namespace

Rows& Rows::add(const std::string& input, DType dtype, std::span<const std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (rows_ < 1 || size % (rows_ * element_bytes(dtype)) != 0) {
    throw Error(ErrorCode::bad_data, input,
                std::to_string(size / element_bytes(dtype)) + " values are not those of " +
                    std::to_string(rows_) + " rows",
                "give as many values for every row");
  }
  columns_[input] = {dtype, bytes};
  return *this;
}

Rows& Rows::add(const std::string& input, std::span<const float> values) {
  return add(input, DType::f32, std::as_bytes(values));
}
Rows& Rows::add(const std::string& input, std::span<const int32_t> values) {
  return add(input, DType::i32, std::as_bytes(values));
}
Rows& Rows::add(const std::string& input, std::span<const uint8_t> values) {
  return add(input, DType::boolean, std::as_bytes(values));
}

std::vector<std::string> Rows::columns() const {
  std::vector<std::string> names;
  for (const auto& [name, column] : columns_) names.push_back(name);
  return names;
}

void Rows::fill(const RowSlot& slot) const {
  const auto found = columns_.find(slot.input);
  if (found == columns_.end())
    throw Error(ErrorCode::bad_data, slot.input, "the rows have no values for this input",
                "add(\"" + slot.input + "\", ...)");
  const Column& column = found->second;
  const int64_t element = element_bytes(slot.dtype);
  if (column.dtype != slot.dtype)
    throw Error(ErrorCode::bad_data, slot.input,
                std::string("the values are ") + to_string(column.dtype) + ", the input is " +
                    to_string(slot.dtype));
  const int64_t given = std::ssize(column.bytes) / rows_;
  const int64_t wanted = element * element_count(slot.row_shape);
  const int64_t length = slot.length ? length_.of(*slot.length) : 0;
  const bool is_shorter =
      length > 0 && given < wanted && given * slot.row_shape[0] == wanted * length;
  if (given != wanted && !is_shorter) {
    throw Error(ErrorCode::bad_data, slot.input,
                "a row has " + std::to_string(given / element) + " values, the input takes " +
                    to_string(slot.row_shape) + " = " + std::to_string(wanted / element));
  }
  for (int64_t row = 0; row < slot.rows; ++row) {
    const std::byte* from = column.bytes.data() + (slot.first_row + row) * given;
    std::byte* to = slot.bytes.data() + row * wanted;
    fill_up({std::copy(from, from + given, to), to + wanted}, slot);
  }
}

}  // namespace snug
