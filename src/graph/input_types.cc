// SPDX-License-Identifier: Apache-2.0
#include "graph/input_types.h"

#include <string>

#include "base/check.h"

namespace snug {

const TensorType& InputTypes::operator[](size_t index) const {
  if (!has(index)) SNUG_CHECK(false, "input " + std::to_string(index) + " is absent");
  return *types_[index];
}

std::vector<TensorType> InputTypes::given() const {
  std::vector<TensorType> types;
  for (const Given& type : types_) {
    if (type) types.push_back(*type);
  }
  return types;
}

}  // namespace snug
