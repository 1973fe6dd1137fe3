// SPDX-License-Identifier: Apache-2.0
// config.json of every family in the program's list, found as the program finds it; small models
// are built as well.
#include <string>

#include "fuzz/fuzz.h"
#include "graph/builder.h"
#include "io/json_file.h"
#include "models/registry.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::fuzz {
namespace {

constexpr models::BatchShape kShape = {.micro_batch = 2, .length = 3};
constexpr int64_t kMostParts = 7;  // a larger model takes too long to build

}  // namespace

void read_model_config(std::string_view input) {
  const std::string name = "config.json";
  const std::string type = io::parse_json(input, name).get_string("model_type", "");
  const models::ModelFamily* family = models::family_of_type(type);
  if (family == nullptr) throw Error(ErrorCode::bad_config, name, "no family reads it");
  const models::ArchitecturePtr read = family->read(input, name, nullptr);
  const models::ArchitecturePtr again = family->read(read->config_json(), name, nullptr);
  // Names of labels that the file does not give are written as LABEL_0, ...
  const models::ModelFacts facts = {.labels = again->traits().labels};
  require(again->with_facts(facts)->is_equal(*read->with_facts(facts)), "what is written is read");
  const models::ProgramSize size = read->size(kShape.length);
  if (size.parts + size.layer_parts > kMostParts) return;
  GraphBuilder builder(op_registry(), "model");
  (void)read->build(builder, kShape, {});
}

}  // namespace snug::fuzz
