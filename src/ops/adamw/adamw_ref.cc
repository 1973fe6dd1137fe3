// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/moments_ref.h"

namespace snug {

std::span<const RefKernelDef> adamw_ref_kernels() {
  static const RefKernelDef kernels[] = {{"adamw", run_or_skip<run_moments<Decay::of_weight>>},
                                         {"adamw_8bit", run_coded<run_moments<Decay::of_weight>>}};
  return kernels;
}

}  // namespace snug
