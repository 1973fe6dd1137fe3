// SPDX-License-Identifier: Apache-2.0
// DeBERTa v2 and v3 as a family: its place in the program and its names in files.
#include "models/deberta/deberta.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size.
struct Preset {
  const char* name;
  int64_t words;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
  int64_t intermediate;
};
constexpr Preset kPresets[] = {{"deberta-v3-tiny", 32000, 2, 128, 2, 512},
                               {"deberta-v3-xsmall", 128100, 12, 384, 6, 1536},
                               {"deberta-v3-small", 128100, 6, 768, 12, 3072},
                               {"deberta-v3-base", 128100, 12, 768, 12, 3072},
                               {"deberta-v3-large", 128100, 24, 1024, 16, 4096},
                               {"mdeberta-v3-base", 251000, 12, 768, 12, 3072},
                               {"deberta-v2-xlarge", 128100, 24, 1536, 24, 6144}};

std::optional<DebertaConfig> find_preset(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    DebertaConfig config;
    config.vocab_size = preset.words;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = preset.intermediate;
    config.position_biased_input = false;
    config.relative_attention = true;
    config.share_att_key = true;
    config.content_to_position = true;
    config.position_to_content = true;
    config.position_buckets = 256;
    config.has_relative_norm = true;
    if (name == "deberta-v2-xlarge") {
      config.conv_kernel_size = 3;
      config.conv_act = "gelu";
    }
    return config;
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("pooler.") ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("lm_predictions.", "mask_predictions.", "cls.") is no sign of
// another network. Published files of v3 have a table of positions that the network has no use for.
bool is_own(const std::string& tensor) {
  if (tensor.ends_with("embeddings.position_embeddings.weight")) return false;
  return starts_with_any(tensor, {"deberta.", "embeddings.", "encoder.", "pooler.", "classifier."});
}

struct Parts {
  using Config = DebertaConfig;
  static constexpr auto preset = find_preset;
  static constexpr auto read = deberta_config_from_json;
  static constexpr auto write = deberta_config_to_json;
  static constexpr auto build = build_deberta_classifier;
  static constexpr auto init_rule = deberta_init_rule;
  static constexpr auto apply_facts = take_text_facts<DebertaConfig>;
};

}  // namespace

const ModelFamily& deberta_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "deberta",
       .model_types = std::vector<std::string>{"deberta-v2", "deberta"},
       .presets = preset_names(),
       .presets_help = "deberta-v3-tiny, -xsmall, -small, -base, -large, mdeberta-v3-base, "
                       "deberta-v2-xlarge",
       .weights =
           WeightNames{.stored = own_name, .prefix = "deberta.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
