// SPDX-License-Identifier: Apache-2.0
// Words of a command line, cut at NUL bytes.
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "snug/config.h"

namespace snug::fuzz {

void read_arguments(std::string_view input) {
  std::vector<std::string> words;
  for (const std::string_view part : parts_of(input, 64)) words.emplace_back(part);
  const ConfigArguments split = split_config_arguments(words);
  require(split.rest.size() + split.overrides.size() <= words.size(), "no word is made up");
  const RunConfig config = RunConfig::parse("", "", split.overrides);
  require(RunConfig::from_json(config.to_json(), "json") == config, "JSON holds every value");
}

}  // namespace snug::fuzz
