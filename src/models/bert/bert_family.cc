// SPDX-License-Identifier: Apache-2.0
// BERT as a family: its place in the program and its names in files.
#include "models/bert/bert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

WeightRole role(const std::string& parameter) {
  const bool is_pooler = parameter.starts_with("bert.pooler.") || parameter.starts_with("pooler.");
  return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("cls.") is no sign of another network.
bool is_own(const std::string& tensor) {
  return starts_with_any(tensor, {"bert.", "embeddings.", "encoder.", "pooler.", "classifier."});
}

struct Parts {
  using Config = BertConfig;
  static constexpr auto preset = find_bert_preset;
  static constexpr auto read = bert_config_from_json;
  static constexpr auto write = bert_config_to_json;
  static constexpr auto build = build_bert_classifier;
  static constexpr auto init_rule = encoder_init_rule;
  static constexpr auto apply_facts = apply_encoder_facts;
};

}  // namespace

const ModelFamily& bert_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "bert",
       .model_types = std::vector<std::string>{"bert", ""},
       .presets = std::vector<std::string>{"bert-tiny", "bert-mini", "bert-small", "bert-medium",
                                           "bert-base", "bert-large"},
       .presets_help = "bert-tiny, bert-mini, bert-small, bert-medium, bert-base, bert-large",
       .weights =
           WeightNames{.stored = own_name, .prefix = "bert.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
