// SPDX-License-Identifier: Apache-2.0
// Which of the processor's instructions are computed with. There is one set for the whole process,
// for Snug's own kernels and oneDNN's alike, since both libraries choose theirs once a process: the
// best of the processor, unless the environment variable SNUG_MAX_ISA, or oneDNN's own
// ONEDNN_MAX_CPU_ISA (DNNL_MAX_CPU_ISA), holds them down; the lowest wins. Results are equal to the
// bit under one set only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

/// Least first. A processor has every smaller set of its architecture.
enum class InstructionSet : uint8_t {
  baseline,     // of every processor of the architecture: it runs, slowly, and is no limit to set
  neon,         // of every ARM processor of 64 bits, and the only one there
  avx2,         // with FMA
  avx512,       // F, BW, DQ, VL and CD
  avx512_bf16,  // products of bf16 on vectors
  amx,          // products of bf16 on tiles, which the system permits, too
};
inline constexpr InstructionSet kInstructionSets[] = {
    InstructionSet::baseline, InstructionSet::neon,        InstructionSet::avx2,
    InstructionSet::avx512,   InstructionSet::avx512_bf16, InstructionSet::amx};

/// Returns the name of a set, e.g. "avx512_bf16".
[[nodiscard]] std::string_view to_string(InstructionSet set);
/// The set of this name; nothing where there is none.
[[nodiscard]] std::optional<InstructionSet> find_instruction_set(std::string_view name);

/// The set of this process. The first call, which opening a Machine is too, decides it: a program
/// that uses oneDNN itself makes that call before. Throws Error{bad_config} where SNUG_MAX_ISA
/// names no set, or oneDNN was used above it already. Safe to call from any thread.
[[nodiscard]] InstructionSet instruction_set();

/// What there is to say of going on here with what was computed under `before`: that bits may
/// differ. Empty where it is the set of this process, or not known.
[[nodiscard]] std::string instruction_set_notice(std::optional<InstructionSet> before);

}  // namespace snug
