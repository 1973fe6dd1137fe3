// SPDX-License-Identifier: Apache-2.0
#include "snug/models.h"

#include <map>
#include <string>

#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "run_model/read_model.h"
#include "snug/error.h"
#include "snug/lora.h"

namespace snug {
namespace {

run_model::Model model_of(const RunConfig& config) {
  config.require({"model"});
  run_model::Model model = run_model::read_model(config);
  run_model::fit_model(model, config, {});
  return model;
}

Error other_network(const run_model::Model& model, const std::string& why) {
  return {ErrorCode::bad_config, "model",
          "the session is of another network than " + model.name + ": " + why,
          "give the session model_network() of the same keys"};
}

// Each weight of the model has its place in the session, and there is no place for others.
void check_network(const run_model::Model& model, const Session& session) {
  std::map<std::string, TensorInfo> places;
  for (const TensorInfo& tensor : session.tensors()) {
    const bool is_weight =
        tensor.kind != TensorKind::optimizer_state && tensor.kind != TensorKind::scales;
    if (is_weight && !is_adapter_name(tensor.name)) places.emplace(tensor.name, tensor);
  }
  for (const TensorInfo& weight : tensors_of(run_model::network_of(model))) {
    const auto place = places.extract(weight.name);
    if (place.empty()) throw other_network(model, "it has no '" + weight.name + "'");
    if (place.mapped().shape != weight.shape)
      throw other_network(model, "'" + weight.name + "' is " + to_string(place.mapped().shape) +
                                     " there, and " + to_string(weight.shape) + " in the model");
  }
  if (!places.empty())
    throw other_network(model, "'" + places.begin()->first + "' is no weight of it");
}

}  // namespace

Network model_network(const RunConfig& config) { return run_model::network_of(model_of(config)); }

void load_weights(const RunConfig& config, Session& session) {
  const run_model::Model model = model_of(config);
  check_network(model, session);
  (void)run_model::initialize_weights(model, session);
}

}  // namespace snug
