// SPDX-License-Identifier: Apache-2.0
#include "compile/network_def.h"

#include "ops/fed_names.h"
#include "ops/registry.h"

namespace snug::compile {

const OpRegistry& ops_of(const NetworkDef& network) {
  return network.ops != nullptr ? *network.ops : op_registry();
}

ValueId random_key_of(GraphBuilder& builder) {
  const ValueId own = builder.graph().find(kRandomKey);
  return own != kNone ? own : builder.input(kRandomKey, {DType::i64, {3}});
}

}  // namespace snug::compile
