// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace snug::c_api {
namespace {

[[noreturn]] void refuse_rows(const std::string& where, const std::string& what,
                              const std::string& hint = {}) {
  throw Error(ErrorCode::bad_data, where, what, hint);
}

std::string name_of(const snug_array& array) {
  if (array.name == nullptr || array.dtype == nullptr || (array.shape == nullptr && array.rank > 0))
    refuse_rows("array", "it has no name, no type or no shape");
  return array.name;
}

Shape shape_of(const snug_array& array) { return {array.shape, array.shape + array.rank}; }

template <class T>
std::span<T> elements(const snug_array& array) {
  return {static_cast<T*>(array.data), static_cast<size_t>(elements_of(array))};
}

// Arrays, whose rows have to have the shape that the input says.
class ArrayRows final : public Rows {
 public:
  ArrayRows(const snug_data& data, const Lengths& length)
      : Rows(data.rows, length), length_(length) {
    for (const snug_array& array : std::span(data.arrays, data.array_count)) {
      const std::string name = name_of(array);
      const Shape shape = shape_of(array);
      if (shape.empty() || shape[0] != data.rows)
        refuse_rows(
            name,
            "the array " + to_string(shape) + " is not of " + std::to_string(data.rows) + " rows",
            "its first axis is that of the rows");
      const std::string dtype = array.dtype;
      if (dtype == "f32")
        add(name, elements<const float>(array));
      else if (dtype == "i32")
        add(name, elements<const int32_t>(array));
      else if (dtype == "bool")
        add(name, elements<const uint8_t>(array));
      else
        refuse_rows(name, "an input has no elements of " + dtype, "f32, i32 and bool are");
      if (!shapes_.emplace(name, shape).second) refuse_rows(name, "is given twice");
    }
  }
  void fill(const RowSlot& slot) const override {
    const auto given = shapes_.find(slot.input);
    if (given != shapes_.end()) {
      Shape wanted = slot.row_shape;
      if (slot.length && length_.of(*slot.length) > 0) wanted[0] = length_.of(*slot.length);
      wanted.insert(wanted.begin(), &given->second[0], &given->second[0] + 1);
      if (wanted != given->second)
        refuse_rows(
            slot.input,
            "the array is " + to_string(given->second) + ", the input takes " + to_string(wanted),
            slot.length ? "say how long the rows are: length" : "");
    }
    Rows::fill(slot);
  }

 private:
  Lengths length_;
  std::map<std::string, Shape> shapes_;
};

// Rows that the caller writes where they are asked for. The arrays name the columns that it has.
class FilledRows final : public RowSource {
 public:
  FilledRows(const snug_data& data, Lengths length, std::map<std::string, double> total_weights)
      : data_(data), length_(std::move(length)), total_weights_(std::move(total_weights)) {
    for (const snug_array& array : std::span(data.arrays, data.array_count)) {
      if (array.name == nullptr) refuse_rows("array", "it has no name");
      columns_.emplace_back(array.name);
    }
  }
  [[nodiscard]] int64_t rows() const override { return data_.rows; }
  [[nodiscard]] Lengths length() const override { return length_; }
  [[nodiscard]] bool has(const std::string& input) const override {
    return columns_.empty() || std::find(columns_.begin(), columns_.end(), input) != columns_.end();
  }
  [[nodiscard]] std::vector<std::string> columns() const override { return columns_; }
  void fill(const RowSlot& slot) const override { fill_all(std::span(&slot, 1)); }
  void fill_all(std::span<const RowSlot> slots) const override {
    std::vector<std::vector<int64_t>> shapes;
    for (const RowSlot& slot : slots) {
      std::vector<int64_t> shape = {slot.rows};
      shape.insert(shape.end(), slot.row_shape.begin(), slot.row_shape.end());
      shapes.push_back(std::move(shape));
    }
    std::vector<snug_slot> given;
    for (size_t i = 0; i < slots.size(); ++i) {
      const RowSlot& slot = slots[i];
      given.push_back({.array = {.name = slot.input.c_str(),
                                 .dtype = to_string(slot.dtype),
                                 .shape = shapes[i].data(),
                                 .rank = shapes[i].size(),
                                 .data = slot.bytes.data()},
                       .length = slot.length ? slot.length->c_str() : nullptr,
                       .padding = slot.padding,
                       .first_row = slot.first_row});
    }
    const int64_t answer = data_.fill(data_.context, given.data(), given.size());
    if (answer != 0) throw CallbackFailed(answer);
  }
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override {
    const auto found = total_weights_.find(input);
    if (found == total_weights_.end()) return std::nullopt;
    return found->second;
  }
  [[nodiscard]] std::vector<std::string> total_weight_inputs() const override {
    std::vector<std::string> names;
    for (const auto& [name, weight] : total_weights_) names.push_back(name);
    return names;
  }

 private:
  const snug_data& data_;
  Lengths length_;
  std::map<std::string, double> total_weights_;
  std::vector<std::string> columns_;
};

std::map<std::string, double> total_weights(Options& options) {
  std::map<std::string, double> found;
  const std::string text = options.option("total_weights");
  if (text.empty()) return found;
  const Json json = parsed("total_weights", text);
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number()) refuse_rows("total_weights", "'" + name + "' is no number");
    found[name] = value.get<double>();
  }
  return found;
}

}  // namespace

int64_t elements_of(const snug_array& array) {
  int64_t elements = 1;
  for (const int64_t size : std::span(array.shape, array.rank)) elements *= size;
  return elements;
}

std::unique_ptr<RowSource> rows_of(Request& request) {
  const std::string text = request.options.option("length");
  const Lengths length = text.empty() ? Lengths() : lengths_of("length", parsed("length", text));
  if (request.data.fill != nullptr)
    return std::make_unique<FilledRows>(request.data, length, total_weights(request.options));
  return std::make_unique<ArrayRows>(request.data, length);
}

OutputSink sink_of(const snug_data& data) {
  if (data.sink == nullptr) return {};
  return [&data](const OutputRows& out) {
    std::vector<std::vector<int64_t>> shapes;
    for (const auto& [name, values] : out.values) {
      const Shape& row = out.row_shapes.at(name);
      std::vector<int64_t> shape = {out.rows};
      shape.insert(shape.end(), row.begin(), row.end());
      shapes.push_back(std::move(shape));
    }
    std::vector<snug_array> arrays;
    for (const auto& [name, values] : out.values) {
      const std::vector<int64_t>& shape = shapes[arrays.size()];
      arrays.push_back({.name = name.c_str(),
                        .dtype = to_string(DType::f32),
                        .shape = shape.data(),
                        .rank = shape.size(),
                        .data = const_cast<float*>(values.data())});
    }
    const int64_t answer = data.sink(data.context, out.first_row, arrays.data(), arrays.size());
    if (answer != 0) throw CallbackFailed(answer);
  };
}

std::span<float> values_of(const snug_data& data) {
  if (data.array_count != 1 || std::string("f32") != data.arrays[0].dtype)
    throw Error(ErrorCode::bad_config, "array", "one array of f32 is needed");
  return elements<float>(data.arrays[0]);
}

void give(const snug_data& data, const std::string& name, const Shape& shape,
          std::span<const float> values) {
  if (data.sink == nullptr)
    throw Error(ErrorCode::bad_config, "sink", "nobody takes what is given");
  const snug_array array = {.name = name.c_str(),
                            .dtype = to_string(DType::f32),
                            .shape = shape.data(),
                            .rank = shape.size(),
                            .data = const_cast<float*>(values.data())};
  const int64_t answer = data.sink(data.context, 0, &array, 1);
  if (answer != 0) throw CallbackFailed(answer);
}

}  // namespace snug::c_api
