// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/moments_ref.h"

namespace snug {

std::span<const RefKernelDef> adam_ref_kernels() {
  static const RefKernelDef kernels[] = {{"adam", run_or_skip<run_moments<Decay::of_gradient>>},
                                         {"adam_8bit", run_coded<run_moments<Decay::of_gradient>>}};
  return kernels;
}

}  // namespace snug
