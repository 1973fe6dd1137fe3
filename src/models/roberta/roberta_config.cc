// SPDX-License-Identifier: Apache-2.0
// RobertaConfig: validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "models/roberta/roberta.h"
#include "snug/error.h"

namespace snug::models {
namespace {

// The name of transformers' classes up to "ForSequenceClassification".
std::string classes_of(const RobertaConfig& config) {
  if (config.model_type == "xlm-roberta") return "XLMRoberta";
  return config.model_type == "camembert" ? "Camembert" : "Roberta";
}

}  // namespace

void validate(const RobertaConfig& config, const std::string& where) {
  check_encoder(config, config.classifier_rate(), where);
  if (config.pad_token_id < 0)
    throw Error(ErrorCode::bad_config, where, "pad_token_id is null: positions count from it");
  if (config.max_positions() < 1) {
    throw Error(ErrorCode::bad_config, where,
                "max_position_embeddings " + std::to_string(config.max_position_embeddings) +
                    " leaves no position behind the padding token " +
                    std::to_string(config.pad_token_id));
  }
}

RobertaConfig roberta_config_from_json(std::string_view json, const std::string& file,
                                       std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  RobertaConfig config;
  reader.read("model_type", config.model_type);
  if (classes_of(config) == "Roberta")
    reader.require_text("model_type", "roberta", "the model is not RoBERTa");
  read_encoder(reader, config);
  reader.read_token_id("bos_token_id", config.bos_token_id);
  reader.read_token_id("eos_token_id", config.eos_token_id);
  read_classifier_dropout(reader, config);
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string roberta_config_to_json(const RobertaConfig& config) {
  nlohmann::ordered_json json = encoder_json(config, config.model_type, classes_of(config));
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  if (config.eos_token_id >= 0) json["eos_token_id"] = config.eos_token_id;
  append_classifier_dropout(json, config);
  append_encoder_head(json, config, classes_of(config));
  return json.dump(2) + "\n";
}

}  // namespace snug::models
