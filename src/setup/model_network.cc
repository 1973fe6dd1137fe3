// SPDX-License-Identifier: Apache-2.0
#include "setup/model_network.h"

#include "setup/input.h"

namespace snug::train {

NetworkDef network_of(const Model& model) {
  const models::ModelFamily* family = model.family;
  const models::FamilyConfig config = model.config;
  return {.build =
              [family, config, task = model.task, settings = model.settings](
                  GraphBuilder& builder, const BuildRequest& request) {
                models::SequenceModel built = (*family->build)(
                    config, builder, {request.rows, request.lengths.of()},
                    {.training = request.training, .micro_batches = request.micro_batches});
                tasks::finish(builder, built, *task, settings, request.training);
                return built.loss;
              },
          .init_rule =
              [family, config](const std::string& weight, const Shape& shape) {
                return (*family->init_rule)(config, weight, shape);
              },
          .is_head =
              [family](const std::string& parameter) {
                return (*family->weights->role)(parameter) == models::WeightRole::head;
              },
          .coupling =
              model.traits.has_batch_statistics ? "normalises by the statistics of its batch" : "",
          .shortest = input_of(model).has_lengths() ? 1 : 0};
}

}  // namespace snug::train
