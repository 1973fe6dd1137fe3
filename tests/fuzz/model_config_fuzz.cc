// SPDX-License-Identifier: Apache-2.0
// config.json of every family; small models are built as well.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "graph/builder.h"
#include "models/bert.h"
#include "models/lstm.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/vgg.h"
#include "ops/registry.h"

namespace snug::fuzz {
namespace {

// Names of labels that the file does not give are written as LABEL_0, ...
template <class Config>
void require_equal(Config again, const Config& config) {
  if (config.labels.empty()) again.labels.clear();
  require(again == config, "what is written is read");
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += std::min<int64_t>(count, 100);
  return sum;
}

}  // namespace

void read_model_config(std::string_view input) {
  constexpr models::BatchShape kShape = {.micro_batch = 2, .length = 3};
  const std::string name = "config.json";
  const unsigned char family = take_byte(input);
  GraphBuilder builder(op_registry(), "model");
  if (family % 5 == 0) {
    const auto config = models::bert_config_from_json(input, name);
    require_equal(models::bert_config_from_json(models::bert_config_to_json(config), name), config);
    if (config.num_hidden_layers < 4)
      (void)models::build_bert_classifier(builder, config, kShape, {});
  } else if (family % 5 == 1) {
    const auto config = models::lstm_config_from_json(input, name);
    require_equal(models::lstm_config_from_json(models::lstm_config_to_json(config), name), config);
    if (config.num_hidden_layers < 4)
      (void)models::build_lstm_classifier(builder, config, kShape, {});
  } else if (family % 5 == 2) {
    const auto config = models::mlp_config_from_json(input, name);
    require_equal(models::mlp_config_from_json(models::mlp_config_to_json(config), name), config);
    if (config.hidden_sizes.size() < 4)
      (void)models::build_mlp_classifier(builder, config, kShape, {});
  } else if (family % 5 == 3) {
    const auto config = models::resnet_config_from_json(input, name);
    require_equal(models::resnet_config_from_json(models::resnet_config_to_json(config), name),
                  config);
    if (sum_of(config.depths) < 8)
      (void)models::build_resnet_classifier(builder, config, kShape, {});
  } else {
    const auto config = models::vgg_config_from_json(input, name);
    require_equal(models::vgg_config_from_json(models::vgg_config_to_json(config), name), config);
    if (sum_of(config.depths) < 8) (void)models::build_vgg_classifier(builder, config, kShape, {});
  }
}

}  // namespace snug::fuzz
