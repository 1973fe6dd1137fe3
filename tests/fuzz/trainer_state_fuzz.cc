// SPDX-License-Identifier: Apache-2.0
// trainer_state.json, with the configuration in it.
#include <string>

#include "fuzz/fuzz.h"
#include "snug/config.h"
#include "train/state.h"

namespace snug::fuzz {

void read_trainer_state(std::string_view input) {
  const train::RunState state = train::RunState::from_json(std::string(input), "state.json");
  const train::RunState again = train::RunState::from_json(state.to_json(), "again");
  require(again.step == state.step && again.rows_hash == state.rows_hash &&
              again.metrics_bytes == state.metrics_bytes,
          "what is written is read");
  (void)RunConfig::from_json(state.config_json, "state.json");
}

}  // namespace snug::fuzz
