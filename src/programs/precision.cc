// SPDX-License-Identifier: Apache-2.0
#include "programs/precision.h"

#include <utility>

#include "ops/registry.h"

namespace snug::train {
namespace {

bool changes_nothing(const MixedPrecision& precision) {
  return precision.dtype == DType::f32 && precision.overrides.empty();
}

}  // namespace

NetworkDef with_precision(NetworkDef network, const Precision& precision) {
  if (changes_nothing(precision.training) && changes_nothing(precision.evaluation)) return network;
  network.build = [build = std::move(network.build), ops = network.ops, precision](
                      GraphBuilder& builder, const BuildRequest& request) {
    const MixedPrecision& chosen = request.training ? precision.training : precision.evaluation;
    const ValueId loss = build(builder, request);
    if (changes_nothing(chosen)) return loss;
    const OpRegistry& registry = ops != nullptr ? *ops : op_registry();
    Repainted repainted = apply_mixed_precision(builder.graph(), chosen, registry);
    builder = GraphBuilder(registry, std::move(repainted.graph));
    return loss == kNone ? kNone : repainted.values[loss];
  };
  return network;
}

}  // namespace snug::train
