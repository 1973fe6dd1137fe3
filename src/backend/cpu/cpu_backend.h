// SPDX-License-Identifier: Apache-2.0
// The CPU backend: ordered kernel lists an op (first that accepts wins), oneDNN or our
// own for matrix products, SIMD kernels (Highway) for the rest, and the measured speed of this
// machine for predictions.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/machine_profile.h"

namespace snug {

struct Onednn;

struct CpuContext {
  int threads = 1;
  MachineProfile profile;
  std::shared_ptr<const Onednn> onednn = nullptr;  // set by make_cpu_backend
};

/// How several nodes that follow one another are one kernel (KernelChoice::fused). Bits are those
/// of the nodes by themselves.
struct CpuFusedDef {
  /// How many; 1: such nodes are not fused.
  int32_t (*most)(const NodeSpec&);
  /// The node that takes as long as so many of them.
  NodeSpec (*whole)(const NodeSpec&, int32_t count);
  int64_t (*scratch_bytes)(const NodeSpec&, const CpuContext&, int32_t count);
  std::unique_ptr<Kernel> (*create)(const NodeSpec&, const CpuContext&, int32_t count);
};

/// One kernel of the list. Its choice may depend on spec and context.threads, never on a budget or
/// on measured speed: the same machine and thread count must always compute the same bits.
struct CpuKernelDef {
  const char* op;
  const char* kernel;  // "onednn:matmul"
  const char* types;   // "f32 i32 -> f32" (backend/type_signature.h)
  /// Empty when the kernel takes this node, else the reason why not.
  std::string (*accepts)(const NodeSpec&, const CpuContext&);
  /// Scratch bytes of one run; creates no primitive that outlives the call.
  int64_t (*scratch_bytes)(const NodeSpec&, const CpuContext&);
  std::unique_ptr<Kernel> (*create)(const NodeSpec&, const CpuContext&);
  /// The end of its rates' names, where its speed is not that of the op's other kernels.
  const char* rate = "";
  const CpuFusedDef* fused = nullptr;
  /// How such a node is computed by rows; then create() makes a RowKernel of this form, wherever it
  /// has rows.
  RowwiseForm (*row_form)(const NodeSpec&, const CpuContext&) = nullptr;
};

/// Why the kernel does not take the node: its types, or what `accepts` says; empty where it does.
[[nodiscard]] std::string reason_against(const CpuKernelDef& kernel, const NodeSpec& spec,
                                         const CpuContext& context);

[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(CpuContext context);

}  // namespace snug
