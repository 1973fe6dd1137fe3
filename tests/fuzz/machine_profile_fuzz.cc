// SPDX-License-Identifier: Apache-2.0
// The cache of a machine's speeds.
#include <string>

#include "backend/cpu/measure_profile.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {

void read_machine_profile(std::string_view input) {
  MachineProfile profile;
  if (!read_profile(std::string(input), "this machine", profile)) return;
  for (const auto& [kind, rate] : profile.rates) {
    for (const double part :
         {rate.per_call, rate.per_flop, rate.per_byte, rate.far_per_byte, rate.uncertainty})
      require(part >= 0 && part <= 1, "rates are seconds and shares");
  }
  require(profile.waited_share >= 0 && profile.waited_share <= 1, "what was waited is a share");
  MachineProfile again;
  require(read_profile(write_profile(profile), "this machine", again), "what is written is read");
}

}  // namespace snug::fuzz
