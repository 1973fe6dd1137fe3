// SPDX-License-Identifier: Apache-2.0
// BertConfig: presets, validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "models/bert/bert.h"
#include "models/config_reader.h"
#include "snug/error.h"

namespace snug::models {
namespace {

struct BertPreset {
  std::string_view name;
  int64_t layers;
  int64_t hidden;
};

}  // namespace

std::optional<BertConfig> find_bert_preset(std::string_view name) {
  static constexpr BertPreset kBertPresets[] = {{"bert-tiny", 2, 128},  {"bert-mini", 4, 256},
                                                {"bert-small", 4, 512}, {"bert-medium", 8, 512},
                                                {"bert-base", 12, 768}, {"bert-large", 24, 1024}};
  for (const BertPreset& preset : kBertPresets) {
    if (preset.name != name) continue;
    BertConfig config;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.hidden / 64;
    config.intermediate_size = preset.hidden * 4;
    return config;
  }
  return std::nullopt;
}

BertConfig bert_preset(std::string_view name) {
  if (const auto config = find_bert_preset(name)) return *config;
  throw Error(ErrorCode::bad_config, "model", "there is no preset \"" + std::string(name) + "\"",
              "bert-tiny, bert-mini, bert-small, bert-medium, bert-base or bert-large");
}

void validate(const BertConfig& config, const std::string& where) {
  check_encoder(config, config.classifier_rate(), where);
}

BertConfig bert_config_from_json(std::string_view json, const std::string& file,
                                 std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "bert", "the model is not BERT");
  BertConfig config;
  read_encoder(reader, config);
  read_classifier_dropout(reader, config);
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string bert_config_to_json(const BertConfig& config) {
  nlohmann::ordered_json json = encoder_json(config, "bert", "Bert");
  append_classifier_dropout(json, config);
  append_encoder_head(json, config, "Bert");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
