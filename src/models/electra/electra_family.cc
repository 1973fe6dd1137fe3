// SPDX-License-Identifier: Apache-2.0
// ELECTRA's discriminator as a family: its place in the program and its names in files.
#include "models/electra/electra.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

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

std::optional<ElectraConfig> find_preset(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
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

// What is left over from pretraining ("discriminator_predictions.") is no sign of another network.
bool is_own(const std::string& tensor) {
  return starts_with_any(
      tensor, {"electra.", "embeddings.", "embeddings_project.", "encoder.", "classifier."});
}

struct Parts {
  using Config = ElectraConfig;
  static constexpr auto preset = find_preset;
  static constexpr auto read = electra_config_from_json;
  static constexpr auto write = electra_config_to_json;
  static constexpr auto build = build_electra_classifier;
  static constexpr auto init_rule = encoder_init_rule;
  static constexpr auto apply_facts = apply_encoder_facts;
};

}  // namespace

const ModelFamily& electra_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "electra",
       .model_types = std::vector<std::string>{"electra"},
       .presets = std::vector<std::string>{"electra-tiny", "electra-small", "electra-base",
                                           "electra-large"},
       .presets_help = "electra-tiny, electra-small, electra-base, electra-large",
       .weights = WeightNames{.stored = own_name,
                              .prefix = "electra.",
                              .role = role_by_classifier,
                              .is_own = is_own}});
  return family;
}

}  // namespace snug::models
