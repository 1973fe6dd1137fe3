// SPDX-License-Identifier: Apache-2.0
// ModernBERT as a family: its place in the program and its names in files.
#include "models/modernbert/modernbert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size with layers of both kinds.
std::optional<ModernbertConfig> find_preset(const std::string& name) {
  ModernbertConfig config;
  if (name == "modernbert-base") return config;
  if (name == "modernbert-large") {
    config.hidden_size = 1024;
    config.intermediate_size = 2624;
    config.num_hidden_layers = 28;
    config.num_attention_heads = 16;
    return config;
  }
  if (name != "modernbert-tiny") return std::nullopt;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  return config;
}

void apply_modernbert_facts(ModernbertConfig& config, const ModelFacts& facts) {
  if (facts.pad_token_id) config.pad_token_id = *facts.pad_token_id;
  take_text_facts(config, facts);
  // A vocabulary of the user's own has no such ids.
  for (int64_t* id : {&config.pad_token_id, &config.cls_token_id, &config.sep_token_id,
                      &config.bos_token_id, &config.eos_token_id}) {
    if (*id >= config.vocab_size) *id = -1;
  }
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("head.") ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("decoder.") is no sign of another network.
bool is_own(const std::string& tensor) {
  return starts_with_any(
      tensor, {"model.", "embeddings.", "layers.", "final_norm.", "head.", "classifier."});
}

struct Parts {
  using Config = ModernbertConfig;
  static constexpr auto preset = find_preset;
  static constexpr auto read = modernbert_config_from_json;
  static constexpr auto write = modernbert_config_to_json;
  static constexpr auto build = build_modernbert_classifier;
  static constexpr auto init_rule = modernbert_init_rule;
  static constexpr auto apply_facts = apply_modernbert_facts;
};

}  // namespace

const ModelFamily& modernbert_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "modernbert",
       .model_types = std::vector<std::string>{"modernbert"},
       .presets =
           std::vector<std::string>{"modernbert-tiny", "modernbert-base", "modernbert-large"},
       .presets_help = "modernbert-tiny, modernbert-base, modernbert-large",
       .weights =
           WeightNames{.stored = own_name, .prefix = "model.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
