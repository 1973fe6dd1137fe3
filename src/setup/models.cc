// SPDX-License-Identifier: Apache-2.0
#include "snug/models.h"

#include "setup/model_network.h"
#include "setup/model_weights.h"
#include "setup/read_model.h"

namespace snug {
namespace {

train::Model model_of(const RunConfig& config) {
  config.require({"model"});
  train::Model model = train::read_model(config);
  train::fit_model(model, config, {});
  return model;
}

}  // namespace

Network model_network(const RunConfig& config) { return train::network_of(model_of(config)); }

void load_weights(const RunConfig& config, Session& session) {
  (void)train::initialize_weights(model_of(config), session);
}

}  // namespace snug
