// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizers.h"

#include <algorithm>

namespace snug {

#define SNUG_OPTIMIZER(word)           \
  const Optimizer& word##_optimizer(); \
  std::span<const OpDef> word##_ops();
#include "optimizers.inc"
#undef SNUG_OPTIMIZER

const std::vector<const Optimizer*>& optimizers() {
  static const std::vector<const Optimizer*> all = {
#define SNUG_OPTIMIZER(word) &word##_optimizer(),
#include "optimizers.inc"
#undef SNUG_OPTIMIZER
  };
  return all;
}

const Optimizer* find_optimizer(std::string_view name) {
  for (const Optimizer* optimizer : optimizers()) {
    if (*optimizer->name == name) return optimizer;
  }
  return nullptr;
}

bool is_optimizer_step(std::string_view op) {
  const auto has = [op](std::span<const OpDef> ops) {
    return std::any_of(ops.begin(), ops.end(), [op](const OpDef& def) { return *def.name == op; });
  };
#define SNUG_OPTIMIZER(word) \
  if (has(word##_ops())) return true;
#include "optimizers.inc"
#undef SNUG_OPTIMIZER
  return false;
}

}  // namespace snug
