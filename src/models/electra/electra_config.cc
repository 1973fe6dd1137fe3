// SPDX-License-Identifier: Apache-2.0
// ElectraConfig: validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "models/electra/electra.h"

namespace snug::models {

void validate(const ElectraConfig& config, const std::string& where) {
  check_encoder(config, config.classifier_rate(), where);
}

ElectraConfig electra_config_from_json(std::string_view json, const std::string& file,
                                       std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "electra", "the model is not ELECTRA");
  ElectraConfig config;
  read_encoder(reader, config);
  reader.read_int("embedding_size", config.embedding_size, 1);
  read_classifier_dropout(reader, config);
  // Keys of the head for multiple choice, and of the generator that pretraining had.
  reader.expect({"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout",
                 "summary_first_dropout", "generator_size", "generator_hidden_size"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string electra_config_to_json(const ElectraConfig& config) {
  nlohmann::ordered_json json = encoder_json(config, "electra", "Electra");
  json["embedding_size"] = config.embedding_size;
  append_classifier_dropout(json, config);
  append_encoder_head(json, config, "Electra");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
