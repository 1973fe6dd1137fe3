// SPDX-License-Identifier: Apache-2.0
#include "ops/token_positions/token_positions.h"

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  const Shape& shape = spec.inputs[0].shape;
  return make_kernel([rows = shape[0], tokens = shape[1],
                      pad = static_cast<int32_t>(spec.attrs.int64("pad")),
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 0);
    auto* positions = output<int32_t>(launch);
    parallel_for(threads, rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(tokens, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     int32_t count = 0;
                     for (int64_t at = row * tokens; at < (row + 1) * tokens; ++at) {
                       const bool is_token = ids[at] != pad;
                       count += is_token ? 1 : 0;
                       positions[at] = pad + (is_token ? count : 0);
                     }
                   }
                 });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> token_positions_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"token_positions", "plain:token_positions", "i32 -> i32", always, no_scratch, create}};
  return kernels;
}

}  // namespace snug
