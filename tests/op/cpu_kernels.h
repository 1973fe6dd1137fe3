// SPDX-License-Identifier: Apache-2.0
// Runs one CPU kernel of one case in guarded, poisoned memory, and the computed error bound that it
// must keep.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "op/case_graph.h"

namespace snug {

/// All kernels of an op, the preferred one first.
[[nodiscard]] std::vector<const CpuKernelDef*> cpu_kernels_of(const std::string& op);
/// What a kernel of the CPU backend is created with.
[[nodiscard]] CpuContext cpu_test_context(int threads);

struct CpuRun {
  ErrorCode code = ErrorCode::ok;
  std::vector<std::vector<std::byte>> outputs;  // exact bytes
  std::string violation;  // a red zone or an input that was written; empty where all is well
};
/// Outputs and scratch hold 0xFF (NaN) before the run; behind and before each tensor lies a red
/// zone. Runs the kernel `times` times, poisoning again in between, and reports the last run.
[[nodiscard]] CpuRun run_cpu_kernel(const CpuKernelDef& def, const CaseGraph& graph, int threads,
                                    int times);

/// The same for a kernel with so many bytes of scratch.
[[nodiscard]] CpuRun run_kernel(const Kernel& kernel, int64_t scratch_bytes, const CaseGraph& graph,
                                int times);

/// The elements of one output as numbers.
[[nodiscard]] std::vector<double> decode(const TensorType& type,
                                         const std::vector<std::byte>& bytes);

/// Half a place of f32.
inline constexpr double kEpsilonF32 = 0x1p-24;
/// For every element of every output: how far a backward stable kernel that rounds to half places
/// of `epsilon` may be from the reference. Computed from the reference's own sensitivity to
/// rounding of the inputs, the size of the result and the length of its sums.
[[nodiscard]] std::vector<std::vector<double>> error_bounds(const CaseGraph& graph,
                                                            double epsilon = kEpsilonF32);

}  // namespace snug
