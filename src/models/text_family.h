// SPDX-License-Identifier: Apache-2.0
// The value of a family of texts with heads of rows and of tokens. `Parts` has what is the family's
// own, as static members (those of ModelFamily of these names, but of a Config):
//   Config                                          its configuration, with
//       vocab_size, num_labels, labels, head, text_head, validate(config, where) beside it,
//       max_positions(): the longest row in tokens, 0: any
//       program_parts(): ProgramSize::parts, whatever the length
//       set_hidden_dropout(rate), set_attention_dropout(rate): what the keys of these names mean
//   preset(name) -> std::optional<Config>, read, write, build, init_rule, apply_facts
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/family.h"
#include "models/text_head.h"

namespace snug::models {

struct TextFamilyNames {
  Required<std::string> name;
  Required<std::vector<std::string>> model_types;
  Required<std::vector<std::string>> presets;
  Required<std::string> presets_help;
  Required<WeightNames> weights;
};

/// What is known of vocabulary and labels; the padding token is the family's affair.
template <class Config>
void take_text_facts(Config& config, const ModelFacts& facts) {
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

[[nodiscard]] inline bool starts_with_any(const std::string& text,
                                          std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return text.starts_with(prefix); });
}

template <class Parts>
[[nodiscard]] ModelFamily text_family(TextFamilyNames names) {
  using Config = typename Parts::Config;
  return {
      .name = std::move(names.name),
      .input = InputKind::text,
      .model_types = std::move(names.model_types),
      .preset_names = std::move(names.presets),
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help = std::move(names.presets_help),
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = [](const RunConfig& run) -> std::optional<FamilyConfig> {
        const std::optional<Config> found = Parts::preset(run.model);
        return found ? std::optional<FamilyConfig>(*found) : std::nullopt;
      },
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return Parts::read(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return Parts::write(config_of<Config>(config)); },
      .is_equal =
          [](const FamilyConfig& a, const FamilyConfig& b) {
            return config_of<Config>(a) == config_of<Config>(b);
          },
      .apply_keys =
          [](FamilyConfig& any, const RunConfig& run) {
            auto& config = config_of<Config>(any);
            if (run.hidden_dropout_prob) config.set_hidden_dropout(*run.hidden_dropout_prob);
            if (run.attention_probs_dropout_prob)
              config.set_attention_dropout(*run.attention_probs_dropout_prob);
            apply_text_head_keys(run, config.text_head);
          },
      .apply_facts =
          [](FamilyConfig& any, const ModelFacts& facts) {
            Parts::apply_facts(config_of<Config>(any), facts);
          },
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(config_of<Config>(config), where); },
      .traits =
          [](const FamilyConfig& any) {
            const auto& config = config_of<Config>(any);
            return ModelTraits{.vocab_size = config.vocab_size,
                               .max_positions = config.max_positions(),
                               .num_labels = config.num_labels,
                               .labels = config.labels,
                               .head = config.head,
                               .text_head = config.text_head};
          },
      .size =
          [](const FamilyConfig& config, int64_t) {
            return ProgramSize{.parts = config_of<Config>(config).program_parts()};
          },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return Parts::build(builder, config_of<Config>(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return Parts::init_rule(config_of<Config>(config), parameter, shape);
          },
      .weights = std::move(names.weights)};
}

}  // namespace snug::models
