// SPDX-License-Identifier: Apache-2.0
// ELECTRA's discriminator as a family: its place in the program and its names in files.
#include "models/electra/electra.h"
#include "models/family.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const ElectraConfig& of(const FamilyConfig& config) { return config_of<ElectraConfig>(config); }

// The published networks, and one of BERT-tiny's size.
struct Preset {
  const char* name;
  int64_t layers;
  int64_t embedding;
  int64_t hidden;
  int64_t heads;
};
constexpr Preset kPresets[] = {{"electra-tiny", 2, 64, 128, 2},
                               {"electra-small", 12, 128, 256, 4},
                               {"electra-base", 12, 768, 768, 12},
                               {"electra-large", 24, 1024, 1024, 16}};

std::optional<FamilyConfig> preset(const RunConfig& run) {
  for (const Preset& preset : kPresets) {
    if (run.model != preset.name) continue;
    ElectraConfig config;
    config.num_hidden_layers = preset.layers;
    config.embedding_size = preset.embedding;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    return config;
  }
  return std::nullopt;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  apply_encoder_facts(config_of<ElectraConfig>(any), facts);
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<ElectraConfig>(any);
  if (run.hidden_dropout_prob) {
    config.hidden_dropout_prob = *run.hidden_dropout_prob;
    config.classifier_dropout.reset();
  }
  if (run.attention_probs_dropout_prob)
    config.attention_probs_dropout_prob = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

WeightRole role(const std::string& parameter) { return role_by_classifier(parameter); }

// What is left over from pretraining ("discriminator_predictions.") is no sign of another network.
bool is_own(const std::string& tensor) {
  for (const char* prefix :
       {"electra.", "embeddings.", "embeddings_project.", "encoder.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& electra_family() {
  static const ModelFamily family = {
      .name = "electra",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"electra"},
      .preset_names = std::vector<std::string>{"electra-tiny", "electra-small", "electra-base",
                                               "electra-large"},
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help = "electra-tiny, electra-small, electra-base, electra-large",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return electra_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return electra_config_to_json(of(config)); },
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
            return build_electra_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return encoder_init_rule(of(config), parameter, shape);
          },
      .weights =
          WeightNames{.stored = own_name, .prefix = "electra.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
