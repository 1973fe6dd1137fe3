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

/// Names of labels that the file does not give are written as LABEL_0, ...
void give_labels(const models::ModelFamily& family, models::FamilyConfig& config,
                 const std::vector<std::string>& labels) {
  (*family.apply_facts)(config, {.labels = labels});
}

}  // namespace

void read_model_config(std::string_view input) {
  const std::string name = "config.json";
  const std::string type = io::parse_json(input, name).get_string("model_type", "");
  const models::ModelFamily* family = models::family_of_type(type);
  if (family == nullptr) throw Error(ErrorCode::bad_config, name, "no family reads it");
  models::FamilyConfig config = (*family->read)(input, name, nullptr);
  models::FamilyConfig again = (*family->read)((*family->write)(config), name, nullptr);
  const std::vector<std::string> labels = (*family->traits)(again).labels;
  give_labels(*family, config, labels);
  give_labels(*family, again, labels);
  require((*family->is_equal)(again, config), "what is written is read");
  const models::ProgramSize size = (*family->size)(config, kShape.length);
  if (size.parts + size.layer_parts > kMostParts) return;
  GraphBuilder builder(op_registry(), "model");
  (void)(*family->build)(config, builder, kShape, {});
}

}  // namespace snug::fuzz
