// SPDX-License-Identifier: Apache-2.0
// Element numbers for reference kernels: slow and obvious.
#pragma once

#include <cstdint>
#include <vector>

#include "snug/types.h"

namespace snug {

/// The coordinates of a row-major element number.
inline std::vector<int64_t> coordinates_of(int64_t element, const Shape& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = element % shape[i];
    element /= shape[i];
  }
  return at;
}
/// The inverse.
inline int64_t element_at(const std::vector<int64_t>& at, const Shape& shape) {
  int64_t element = 0;
  for (size_t i = 0; i < shape.size(); ++i) element = element * shape[i] + at[i];
  return element;
}
/// For every element of `to`, in order, the element of `from` that broadcasts there.
inline std::vector<int64_t> broadcast_map(const Shape& from, const Shape& to) {
  std::vector<int64_t> map(static_cast<size_t>(element_count(to)));
  const size_t missing = to.size() - from.size();
  for (size_t i = 0; i < map.size(); ++i) {
    const std::vector<int64_t> at = coordinates_of(static_cast<int64_t>(i), to);
    for (size_t d = 0; d < from.size(); ++d)
      map[i] = map[i] * from[d] + (from[d] == 1 ? 0 : at[missing + d]);
  }
  return map;
}

}  // namespace snug
