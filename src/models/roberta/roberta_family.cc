// SPDX-License-Identifier: Apache-2.0
// RoBERTa, XLM-R and CamemBERT as a family: its place in the program and its names in files.
#include "models/family.h"
#include "models/roberta/roberta.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const RobertaConfig& of(const FamilyConfig& config) { return config_of<RobertaConfig>(config); }

// The published networks, and one of BERT-tiny's size.
struct Preset {
  const char* name;
  const char* model_type;
  int64_t words;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
};
constexpr Preset kPresets[] = {{"roberta-tiny", "roberta", 50265, 2, 128, 2},
                               {"distilroberta-base", "roberta", 50265, 6, 768, 12},
                               {"roberta-base", "roberta", 50265, 12, 768, 12},
                               {"roberta-large", "roberta", 50265, 24, 1024, 16},
                               {"xlm-roberta-base", "xlm-roberta", 250002, 12, 768, 12},
                               {"xlm-roberta-large", "xlm-roberta", 250002, 24, 1024, 16}};

std::optional<FamilyConfig> preset(const RunConfig& run) {
  for (const Preset& preset : kPresets) {
    if (run.model != preset.name) continue;
    RobertaConfig config;
    config.model_type = preset.model_type;
    config.vocab_size = preset.words;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    config.max_position_embeddings = 514;
    config.type_vocab_size = 1;
    config.layer_norm_eps = 1e-5;
    return config;
  }
  return std::nullopt;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  apply_encoder_facts(config_of<RobertaConfig>(any), facts);
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<RobertaConfig>(any);
  if (run.hidden_dropout_prob) {
    config.hidden_dropout_prob = *run.hidden_dropout_prob;
    config.classifier_dropout.reset();
  }
  if (run.attention_probs_dropout_prob)
    config.attention_probs_dropout_prob = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

WeightRole role(const std::string& parameter) { return role_by_classifier(parameter); }

// What is left over from pretraining ("lm_head."), and the pooler that no head reads, are no sign
// of another network.
bool is_own(const std::string& tensor) {
  for (const char* prefix :
       {"roberta.embeddings.", "roberta.encoder.", "embeddings.", "encoder.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& roberta_family() {
  static const ModelFamily family = {
      .name = "roberta",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"roberta", "xlm-roberta", "camembert"},
      .preset_names =
          std::vector<std::string>{"roberta-tiny", "distilroberta-base", "roberta-base",
                                   "roberta-large", "xlm-roberta-base", "xlm-roberta-large"},
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help =
          "roberta-tiny, roberta-base, roberta-large, distilroberta-base, xlm-roberta-base, "
          "xlm-roberta-large",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return roberta_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return roberta_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits =
          [](const FamilyConfig& config) {
            return encoder_traits(of(config), of(config).max_positions());
          },
      .size = [](const FamilyConfig& config,
                 int64_t) { return ProgramSize{.parts = of(config).num_hidden_layers}; },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_roberta_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return encoder_init_rule(of(config), parameter, shape);
          },
      .weights =
          WeightNames{.stored = own_name, .prefix = "roberta.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
