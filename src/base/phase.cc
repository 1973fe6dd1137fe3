// SPDX-License-Identifier: Apache-2.0
#include "base/phase.h"

namespace snug {

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::prologue:
      return "prologue";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

std::optional<Phase> find_phase(std::string_view name) {
  for (const Phase phase : {Phase::prologue, Phase::forward, Phase::backward, Phase::update}) {
    if (name == to_string(phase)) return phase;
  }
  return std::nullopt;
}

}  // namespace snug
