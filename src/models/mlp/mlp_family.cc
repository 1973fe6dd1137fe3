// SPDX-License-Identifier: Apache-2.0
// The MLP as a family: its place in the program and its names in files.
#include "models/family.h"
#include "models/mlp/mlp.h"

namespace snug::models {
namespace {

const MlpConfig& of(const FamilyConfig& config) { return config_of<MlpConfig>(config); }

std::optional<FamilyConfig> preset(const RunConfig& run) {
  if (run.model != "mlp") return std::nullopt;
  MlpConfig config;
  config.hidden_sizes = run.hidden_sizes;
  return config;
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<MlpConfig>(any);
  if (run.hidden_dropout_prob) config.dropout = *run.hidden_dropout_prob;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<MlpConfig>(any);
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

ModelTraits traits(const FamilyConfig& any) {
  const MlpConfig& config = of(any);
  return {.vocab_size = config.vocab_size,
          .num_labels = config.num_labels,
          .labels = config.labels,
          .head = config.head};
}

ProgramSize size(const FamilyConfig& config, int64_t) {
  return {.parts = static_cast<int64_t>(of(config).hidden_sizes.size())};
}

}  // namespace

const ModelFamily& mlp_family() {
  static const ModelFamily family = {
      .name = "mlp",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"mlp"},
      .preset_names = std::vector<std::string>{"mlp"},
      .heads = std::vector{HeadKind::row},
      .presets_help = "mlp",
      .keys = std::vector<ModelKey>{{"hidden_sizes",
                                     "the layers after the mean of the word embeddings", true},
                                    {"hidden_dropout_prob", ""}},
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return mlp_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return mlp_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits = traits,
      .size = size,
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_mlp_classifier(builder, of(config), shape, options);
          },
      .init_rule = [](const FamilyConfig& config, const std::string& parameter,
                      const Shape& shape) { return mlp_init_rule(of(config), parameter, shape); },
      .weights = WeightNames{.stored = own_name,
                             .prefix = "",
                             .role = role_by_classifier,
                             .is_own = every_tensor_is_own}};
  return family;
}

}  // namespace snug::models
