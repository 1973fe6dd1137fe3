// SPDX-License-Identifier: Apache-2.0
// Apart from what decides the set: readers of saved states know names and no library.
#include "snug/instruction_set.h"

namespace snug {

std::string_view to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::neon:
      return "neon";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx512_bf16:
      return "avx512_bf16";
    case InstructionSet::amx:
      return "amx";
  }
  return "";
}

std::optional<InstructionSet> find_instruction_set(std::string_view name) {
  for (const InstructionSet set : kInstructionSets) {
    if (to_string(set) == name) return set;
  }
  return std::nullopt;
}

}  // namespace snug
