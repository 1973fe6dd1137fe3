// SPDX-License-Identifier: Apache-2.0
// What families of texts share. TextFamily: vocabulary, labels, a head; its Config has
//   vocab_size, num_labels, labels, head
//   set_hidden_dropout(rate): what the key of that name means
// TransformerFamily: one whose head text_head.h builds, of rows or of tokens; its Config has
// besides
//   text_head
//   max_positions(): the longest row in tokens, 0: any
//   set_attention_dropout(rate): what attention_probs_dropout_prob means
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "models/family_of.h"
#include "models/text_head.h"

namespace snug::models {

/// What is known of vocabulary and labels; the padding token is the family's affair.
template <class Config>
void take_text_facts(const ModelFacts& facts, Config& config) {
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

[[nodiscard]] inline bool starts_with_any(const std::string& text,
                                          std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return text.starts_with(prefix); });
}

template <class Config>
class TextFamily : public FamilyOf<Config> {
 protected:
  using FamilyOf<Config>::FamilyOf;

  void take_keys(const RunConfig& run, Config& config) const override {
    if (run.hidden_dropout_prob) config.set_hidden_dropout(*run.hidden_dropout_prob);
  }
  void take_facts(const ModelFacts& facts, Config& config) const override {
    take_text_facts(facts, config);
  }
  [[nodiscard]] ModelTraits traits(const Config& config) const override {
    return {.vocab_size = config.vocab_size,
            .num_labels = config.num_labels,
            .labels = config.labels,
            .head = config.head};
  }
};

struct TransformerNames {
  Required<std::string> name;
  Required<std::vector<std::string>> model_types;
  Required<std::vector<std::string>> presets;
  Required<std::string> presets_help;
  Required<std::string> prefix;
};

template <class Config>
class TransformerFamily : public TextFamily<Config> {
 protected:
  explicit TransformerFamily(const TransformerNames& names)
      : TextFamily<Config>({.name = names.name,
                            .input = InputKind::text,
                            .model_types = names.model_types,
                            .preset_names = names.presets,
                            .heads = std::vector{HeadKind::row, HeadKind::token},
                            .presets_help = names.presets_help,
                            .keys = with_text_head_keys({{"hidden_dropout_prob", ""},
                                                         {"attention_probs_dropout_prob", ""}}),
                            .prefix = names.prefix}) {}

  void take_keys(const RunConfig& run, Config& config) const override {
    TextFamily<Config>::take_keys(run, config);
    if (run.attention_probs_dropout_prob)
      config.set_attention_dropout(*run.attention_probs_dropout_prob);
    take_text_head_keys(run, config.text_head);
  }
  [[nodiscard]] ModelTraits traits(const Config& config) const override {
    ModelTraits traits = TextFamily<Config>::traits(config);
    traits.max_positions = config.max_positions();
    traits.text_head = config.text_head;
    return traits;
  }
};

}  // namespace snug::models
