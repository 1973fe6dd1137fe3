// SPDX-License-Identifier: Apache-2.0
// The configuration in a checkpoint.
#include "fuzz/fuzz.h"
#include "snug/config.h"

namespace snug::fuzz {

void read_run_json(std::string_view input) {
  const RunConfig config = RunConfig::from_json(input, "config");
  require(RunConfig::from_json(config.to_json(), "again") == config, "JSON holds every value");
}

}  // namespace snug::fuzz
