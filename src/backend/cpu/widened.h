// SPDX-License-Identifier: Apache-2.0
// Nodes with operands in 16 bits that no kernel takes: they run the kernel of f32 on copies of
// these operands in scratch. So an op is complete with kernels for f32 only; one that is worth it
// lists kernels that convert rows as they load them (backend/cpu/rows-inl.h).
#pragma once

#include <memory>
#include <optional>

#include "backend/backend.h"

namespace snug {

/// The node with every operand of bf16 or f16 in f32; nothing where it has none.
[[nodiscard]] std::optional<NodeSpec> widened(const NodeSpec& spec);

/// `backend` knows a kernel for `wide`, which is widened(spec).
[[nodiscard]] KernelChoice select_widened(const Backend& backend, const NodeSpec& spec,
                                          const NodeSpec& wide);
[[nodiscard]] std::unique_ptr<Kernel> create_widened(const Backend& backend, const NodeSpec& spec,
                                                     const NodeSpec& wide);

}  // namespace snug
