// SPDX-License-Identifier: Apache-2.0
// For tests: what some work allocates.
#pragma once

#include <cstdint>
#include <functional>

namespace snug {

struct Allocations {
  int64_t blocks = 0;
  int64_t bytes = 0;
  int64_t largest_bytes = 0;
  int64_t left_over = 0;  // blocks that were not freed
};

/// Runs `work` and counts the blocks that it asks malloc and its kin for, in all threads.
[[nodiscard]] Allocations count_allocations(const std::function<void()>& work);

}  // namespace snug
