// SPDX-License-Identifier: Apache-2.0
#include "compile/precision.h"

#include <utility>

namespace snug::train {
namespace {

bool changes_nothing(const MixedPrecision& precision) {
  return precision.dtype == DType::f32 && precision.overrides.empty();
}

}  // namespace

NetworkDef with_precision(NetworkDef network, const Precision& precision) {
  if (changes_nothing(precision.training) && changes_nothing(precision.evaluation)) return network;
  NetworkDef mixed = network;
  mixed.build = [network, precision](GraphBuilder& builder, const BuildRequest& request) {
    const MixedPrecision& chosen = request.training ? precision.training : precision.evaluation;
    const ValueId loss = network.build(builder, request);
    if (changes_nothing(chosen)) return loss;
    const OpRegistry& ops = ops_of(network);
    Repainted repainted = apply_mixed_precision(builder.graph(), chosen, ops);
    builder = GraphBuilder(ops, std::move(repainted.graph));
    return loss == kNone ? kNone : repainted.values[loss];
  };
  return mixed;
}

}  // namespace snug::train
