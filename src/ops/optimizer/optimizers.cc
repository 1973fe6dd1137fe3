// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizers.h"

namespace snug {

#define SNUG_OPTIMIZER(word) const Optimizer& word##_optimizer();
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

}  // namespace snug
