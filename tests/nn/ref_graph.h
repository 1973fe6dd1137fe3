// SPDX-License-Identifier: Apache-2.0
// For tests: a graph that is built and fed at once and runs on the reference backend, and the text
// goldens in tests/golden
// ("name shape values..." a line, shape "2x3" or "-").
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/autodiff.h"
#include "backend/reference/reference.h"
#include "ops/registry.h"

namespace snug {

struct GoldenTensor {
  Shape shape;
  std::vector<double> data;
};

class GoldenText {
 public:
  explicit GoldenText(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string name;
      std::string shape;
      words >> name >> shape;
      GoldenTensor& tensor = tensors_[name];
      std::istringstream dims(shape == "-" ? "" : shape);
      for (std::string dim; std::getline(dims, dim, 'x');) tensor.shape.push_back(std::stoll(dim));
      for (double value = 0; words >> value;) tensor.data.push_back(value);
    }
    if (tensors_.empty()) throw std::runtime_error("no goldens in " + path);
  }
  [[nodiscard]] const GoldenTensor& at(const std::string& name) const { return tensors_.at(name); }

 private:
  std::map<std::string, GoldenTensor> tensors_;
};

class RefGraph {
 public:
  GraphBuilder builder{op_registry(), "test"};
  RefValues feeds;

  ValueId parameter(const Shape& shape, std::vector<double> data) {
    return feed(DType::f32, shape, std::move(data));
  }
  ValueId parameter(const GoldenTensor& tensor) { return parameter(tensor.shape, tensor.data); }
  ValueId input(DType dtype, const Shape& shape, std::vector<double> data) {
    return feed(dtype, shape, std::move(data));
  }
  ValueId rng(int64_t seed, int64_t update, int64_t first_slot) {
    return input(
        DType::i64, {3},
        {static_cast<double>(seed), static_cast<double>(update), static_cast<double>(first_slot)});
  }
  [[nodiscard]] std::vector<double> value(ValueId id) const {
    return evaluate(builder.graph(), feeds).at(id);
  }

 private:
  ValueId feed(DType dtype, const Shape& shape, std::vector<double> data) {
    const std::string name = "value" + std::to_string(feeds.size());
    const TensorType type = {dtype, shape};
    const ValueId id =
        dtype == DType::f32 ? builder.parameter(name, type) : builder.input(name, type);
    feeds[id] = std::move(data);
    return id;
  }
};

}  // namespace snug
