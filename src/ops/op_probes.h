// SPDX-License-Identifier: Apache-2.0
// What the probes of ops have in common (Timing::probes): operands, and a few rows against many.
#pragma once

#include <utility>
#include <vector>

#include "graph/op_cost.h"

namespace snug::probes {

inline constexpr int64_t kWidth = 256;
inline constexpr std::nullopt_t kAbsent = std::nullopt;

inline TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
inline TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
inline TensorType boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }
inline TensorType rng() { return {DType::i64, {3}}; }
inline TensorType matrix(int64_t rows) { return f32({rows, kWidth}); }

/// For ops that read and write every element once: on 16 rows and on 1536.
template <class ProbeOfRows>
std::vector<RateProbe> few_and_many(const ProbeOfRows& probe_of_rows) {
  return {probe_of_rows(int64_t{16}), probe_of_rows(int64_t{1536})};
}
/// The same for an op of so many matrices.
template <int kMatrices>
std::vector<RateProbe> of_matrices() {
  return few_and_many([](int64_t rows) {
    return RateProbe{InputTypes(std::vector<InputTypes::Given>(size_t{kMatrices}, matrix(rows)))};
  });
}
inline void append(std::vector<RateProbe> more, std::vector<RateProbe>& to) {
  for (RateProbe& probe : more) to.push_back(std::move(probe));
}

}  // namespace snug::probes
