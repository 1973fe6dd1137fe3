// SPDX-License-Identifier: Apache-2.0
// A matrix product of our own, ready to run (spec.h says what it computes).
#pragma once

#include "backend/cpu/product/blocking.h"

namespace snug {

/// A product, cut once for a number of threads and the instruction set. Plain data: cheap to copy.
class Product {
 public:
  Product(const ProductSpec& spec, int threads);
  [[nodiscard]] const ProductSpec& spec() const { return spec_; }
  /// Scratch that one run takes, from a multiple of 64 on.
  [[nodiscard]] int64_t scratch_bytes() const;
  void run(const ProductLaunch& launch) const noexcept;

 private:
  ProductSpec spec_;
  int threads_;
  ProductBlocking blocking_;
};

}  // namespace snug
