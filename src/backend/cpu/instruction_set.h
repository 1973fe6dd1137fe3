// SPDX-License-Identifier: Apache-2.0
// The parts of snug/instruction_set.h, for its tests: the limit as text, what it means to oneDNN,
// and how both libraries are held to it.
#pragma once

#include <dnnl_types.h>

#include <optional>

#include "snug/instruction_set.h"

namespace snug {

/// Null and empty: no limit. Throws Error{bad_config} for what is no limit of this architecture.
[[nodiscard]] std::optional<InstructionSet> parse_limit(const char* text);

/// The limit in oneDNN's terms, and no more than its own variable permits there (null, empty or a
/// word that oneDNN does not know: anything).
[[nodiscard]] dnnl_cpu_isa_t onednn_limit(InstructionSet limit, const char* variable);
[[nodiscard]] InstructionSet set_of_onednn(dnnl_cpu_isa_t isa);

/// Holds oneDNN and Highway down, and returns the set that both then have. Works once a process.
/// Throws Error{bad_config} where oneDNN is above the limit and cannot be held down any more.
[[nodiscard]] InstructionSet hold_to(std::optional<InstructionSet> limit);

}  // namespace snug
