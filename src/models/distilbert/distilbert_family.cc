// SPDX-License-Identifier: Apache-2.0
// DistilBERT as a family: its place in the program and its names in files.
#include "models/distilbert/distilbert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published network, and one of BERT-tiny's size.
std::optional<DistilbertConfig> find_preset(const std::string& name) {
  DistilbertConfig config;
  if (name == "distilbert-base") return config;
  if (name != "distilbert-tiny") return std::nullopt;
  config.dim = 128;
  config.n_layers = 2;
  config.n_heads = 2;
  config.hidden_dim = 512;
  return config;
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("pre_classifier.") ? WeightRole::head
                                                  : role_by_classifier(parameter);
}

// What is left over from pretraining ("vocab_transform.") is no sign of another network.
bool is_own(const std::string& tensor) {
  return starts_with_any(
      tensor, {"distilbert.", "embeddings.", "transformer.", "pre_classifier.", "classifier."});
}

struct Parts {
  using Config = DistilbertConfig;
  static constexpr auto preset = find_preset;
  static constexpr auto read = distilbert_config_from_json;
  static constexpr auto write = distilbert_config_to_json;
  static constexpr auto build = build_distilbert_classifier;
  static constexpr auto init_rule = distilbert_init_rule;
  static constexpr auto apply_facts = take_text_facts<DistilbertConfig>;
};

}  // namespace

const ModelFamily& distilbert_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "distilbert",
       .model_types = std::vector<std::string>{"distilbert"},
       .presets = std::vector<std::string>{"distilbert-tiny", "distilbert-base"},
       .presets_help = "distilbert-tiny, distilbert-base",
       .weights = WeightNames{
           .stored = own_name, .prefix = "distilbert.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
