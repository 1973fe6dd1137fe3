// SPDX-License-Identifier: Apache-2.0
// ALBERT as a family: its place in the program and its names in files.
#include "models/albert/albert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks of the second version, and one of BERT-tiny's size.
struct Preset {
  const char* name;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
};
constexpr Preset kPresets[] = {{"albert-tiny", 2, 128, 2},
                               {"albert-base", 12, 768, 12},
                               {"albert-large", 24, 1024, 16},
                               {"albert-xlarge", 24, 2048, 16},
                               {"albert-xxlarge", 12, 4096, 64}};

std::optional<AlbertConfig> find_preset(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    AlbertConfig config;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    return config;
  }
  return std::nullopt;
}

WeightRole role(const std::string& parameter) {
  const bool is_pooler =
      parameter.starts_with("albert.pooler.") || parameter.starts_with("pooler.");
  return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("predictions.", "sop_classifier.") is no sign of another
// network.
bool is_own(const std::string& tensor) {
  return starts_with_any(tensor, {"albert.", "embeddings.", "encoder.", "pooler.", "classifier."});
}

struct Parts {
  using Config = AlbertConfig;
  static constexpr auto preset = find_preset;
  static constexpr auto read = albert_config_from_json;
  static constexpr auto write = albert_config_to_json;
  static constexpr auto build = build_albert_classifier;
  static constexpr auto init_rule = encoder_init_rule;
  static constexpr auto apply_facts = apply_encoder_facts;
};

}  // namespace

const ModelFamily& albert_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "albert",
       .model_types = std::vector<std::string>{"albert"},
       .presets = std::vector<std::string>{"albert-tiny", "albert-base", "albert-large",
                                           "albert-xlarge", "albert-xxlarge"},
       .presets_help = "albert-tiny, albert-base, albert-large, albert-xlarge, albert-xxlarge",
       .weights =
           WeightNames{.stored = own_name, .prefix = "albert.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
