// SPDX-License-Identifier: Apache-2.0
#include "snug/models.h"

#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "run_model/read_model.h"

namespace snug {
namespace {

run_model::Model model_of(const RunConfig& config) {
  config.require({"model"});
  run_model::Model model = run_model::read_model(config);
  run_model::fit_model(model, config, {});
  return model;
}

}  // namespace

Network model_network(const RunConfig& config) { return run_model::network_of(model_of(config)); }

void load_weights(const RunConfig& config, Session& session) {
  (void)run_model::initialize_weights(model_of(config), session);
}

}  // namespace snug
