// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

namespace snug {

#define SNUG_OP_FAMILY(family) std::span<const OpDef> family##_ops();
#include "op_families.inc"
#undef SNUG_OP_FAMILY

const OpRegistry& op_registry() {
  static const OpRegistry registry = [] {
    std::vector<const OpDef*> all;
    const auto append = [&all](std::span<const OpDef> family) {
      for (const OpDef& op : family) all.push_back(&op);
    };
#define SNUG_OP_FAMILY(family) append(family##_ops());
#include "op_families.inc"
#undef SNUG_OP_FAMILY
    return OpRegistry(std::move(all));
  }();
  return registry;
}

}  // namespace snug
