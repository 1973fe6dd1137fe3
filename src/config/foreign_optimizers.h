// SPDX-License-Identifier: Apache-2.0
// The values of TrainingArguments' optim that are no words of the key optim: of this and of older
// versions of transformers. A row says which keys do the same, or what to give in its place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace snug::config {

struct ForeignOptimizer {
  std::string_view name;
  std::string_view optim = {};  // empty: refused
  int64_t bits = 32;            // of its states
  bool is_bnb = false;          // bitsandbytes' map
  /// What is said beside the keys; of one that is refused what to give in its place.
  std::string_view note = {};
};

[[nodiscard]] std::span<const ForeignOptimizer> foreign_optimizers();
/// Null where it is none.
[[nodiscard]] const ForeignOptimizer* find_foreign_optimizer(std::string_view name);

}  // namespace snug::config
