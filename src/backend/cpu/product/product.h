// SPDX-License-Identifier: Apache-2.0
// A matrix product of our own, ready to run (spec.h says what it computes).
#pragma once

#include "backend/cpu/product/spec.h"

namespace snug {

/// A product planned for a number of threads. Plain data: cheap to copy.
class Product {
 public:
  Product(const ProductSpec& spec, int threads);
  [[nodiscard]] const ProductSpec& spec() const { return spec_; }
  /// Of one run; it begins at a multiple of 64.
  [[nodiscard]] int64_t scratch_bytes() const;
  void run(const ProductLaunch& launch) const noexcept;

 private:
  ProductSpec spec_;
  int threads_;
};

}  // namespace snug
