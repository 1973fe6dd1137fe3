// SPDX-License-Identifier: Apache-2.0
// A run configuration in YAML.
#include "fuzz/fuzz.h"
#include "snug/config.h"

namespace snug::fuzz {

void read_run_config(std::string_view input) {
  const RunConfig config = RunConfig::parse(input, "run.yaml");
  require(RunConfig::parse(config.to_yaml(), "again") == config, "YAML holds every value");
  require(RunConfig::from_json(config.to_json(), "json") == config, "JSON holds every value");
}

}  // namespace snug::fuzz
