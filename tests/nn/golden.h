// SPDX-License-Identifier: Apache-2.0
// For the parity tests: tensors of a golden file in double, and the comparison with them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace snug {

inline std::vector<double> read_golden(const io::SafetensorsFile& file, const std::string& name) {
  const io::StoredTensor* info = file.find(name);
  if (info == nullptr) throw std::runtime_error("no golden " + name);
  std::vector<double> data(static_cast<size_t>(info->elements()));
  file.read_f64(name, data);
  return data;
}

/// In relative L2; `rounding` is what may be left where the golden is 0.
inline void expect_parity(const std::vector<double>& found, const std::vector<double>& wanted,
                          double rounding, const std::string& name) {
  constexpr double kTolerance = 1e-9;
  ASSERT_EQ(found.size(), wanted.size()) << name;
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  EXPECT_TRUE(std::sqrt(error) <= kTolerance * std::sqrt(norm) + rounding)
      << name << ": " << std::sqrt(error) << " of " << std::sqrt(norm);
}

}  // namespace snug
