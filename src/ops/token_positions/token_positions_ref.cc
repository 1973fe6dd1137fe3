// SPDX-License-Identifier: Apache-2.0
#include "ops/token_positions/token_positions.h"

#include "backend/reference/reference.h"

namespace snug {
namespace {

void run_token_positions(const RefArgs& args) {
  const Shape& shape = args.inputs[0].type.shape;
  const auto pad = static_cast<double>(args.attrs.int64("pad"));
  for (int64_t row = 0; row < shape[0]; ++row) {
    double count = 0;
    for (int64_t at = row * shape[1]; at < (row + 1) * shape[1]; ++at) {
      const bool is_token = args.inputs[0].data[at] != pad;
      count += is_token ? 1 : 0;
      args.outputs[0].data[at] = pad + (is_token ? count : 0);
    }
  }
}

}  // namespace

std::span<const RefKernelDef> token_positions_ref_kernels() {
  static const RefKernelDef kernels[] = {{"token_positions", run_token_positions}};
  return kernels;
}

}  // namespace snug
