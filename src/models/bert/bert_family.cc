// SPDX-License-Identifier: Apache-2.0
// BERT as a family: its place in the program and its names in files.
#include "models/bert/bert.h"
#include "models/family.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const BertConfig& of(const FamilyConfig& config) { return config_of<BertConfig>(config); }

std::optional<FamilyConfig> preset(const RunConfig& run) {
  if (!is_bert_preset(run.model)) return std::nullopt;
  return bert_preset(run.model);
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<BertConfig>(any);
  if (run.hidden_dropout_prob) {
    config.hidden_dropout_prob = *run.hidden_dropout_prob;
    config.classifier_dropout.reset();
  }
  if (run.attention_probs_dropout_prob)
    config.attention_probs_dropout_prob = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  apply_encoder_facts(config_of<BertConfig>(any), facts);
}

WeightRole role(const std::string& parameter) {
  const bool is_pooler = parameter.starts_with("bert.pooler.") || parameter.starts_with("pooler.");
  return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("cls.") is no sign of another network.
bool is_own(const std::string& tensor) {
  for (const char* prefix : {"bert.", "embeddings.", "encoder.", "pooler.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& bert_family() {
  static const ModelFamily family = {
      .name = "bert",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"bert", ""},
      .preset_names = std::vector<std::string>{"bert-tiny", "bert-mini", "bert-small",
                                               "bert-medium", "bert-base", "bert-large"},
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help = "bert-tiny, bert-mini, bert-small, bert-medium, bert-base, bert-large",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return bert_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return bert_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits =
          [](const FamilyConfig& config) {
            return encoder_traits(of(config), of(config).max_position_embeddings);
          },
      .size = [](const FamilyConfig& config,
                 int64_t) { return ProgramSize{.parts = of(config).num_hidden_layers}; },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_bert_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return encoder_init_rule(of(config), parameter, shape);
          },
      .weights =
          WeightNames{.stored = own_name, .prefix = "bert.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
