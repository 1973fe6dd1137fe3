// SPDX-License-Identifier: Apache-2.0
// The LSTM as a family: its place in the program and its names in files.
#include <algorithm>

#include "models/family.h"
#include "models/lstm/lstm.h"

namespace snug::models {
namespace {

constexpr int64_t kPartsOfLayer = 2;   // of a layer above the first
constexpr int64_t kStatesOfPart = 12;  // steps times layers, and their embedding as one

const LstmConfig& of(const FamilyConfig& config) { return config_of<LstmConfig>(config); }

std::optional<FamilyConfig> preset(const RunConfig& run) {
  if (run.model != "lstm") return std::nullopt;
  LstmConfig config;
  if (run.hidden_size > 0) config.hidden_size = run.hidden_size;
  if (run.num_hidden_layers > 0) config.num_hidden_layers = run.num_hidden_layers;
  config.embedding_size = run.embedding_size;
  return config;
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<LstmConfig>(any);
  if (run.hidden_dropout_prob) config.dropout = *run.hidden_dropout_prob;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<LstmConfig>(any);
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

ModelTraits traits(const FamilyConfig& any) {
  const LstmConfig& config = of(any);
  return {.vocab_size = config.vocab_size,
          .num_labels = config.num_labels,
          .labels = config.labels,
          .head = config.head};
}

ProgramSize size(const FamilyConfig& config, int64_t length) {
  const int64_t layers = of(config).num_hidden_layers;
  return {.parts = 1 + length * (layers + 1) / kStatesOfPart,
          .layer_parts = kPartsOfLayer * std::max<int64_t>(0, layers - 1)};
}

}  // namespace

const ModelFamily& lstm_family() {
  static const ModelFamily family = {
      .name = "lstm",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"lstm"},
      .preset_names = std::vector<std::string>{"lstm"},
      .heads = std::vector{HeadKind::row},
      .presets_help = "lstm",
      .keys = std::vector<ModelKey>{{"hidden_size", "width of its states; auto: 256", true},
                                    {"num_hidden_layers", "layers, one on another; auto: 1", true},
                                    {"embedding_size",
                                     "width of the word embeddings; auto: hidden_size", true},
                                    {"hidden_dropout_prob", ""}},
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return lstm_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return lstm_config_to_json(of(config)); },
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
            return build_lstm_classifier(builder, of(config), shape, options);
          },
      .init_rule = [](const FamilyConfig& config, const std::string& parameter,
                      const Shape& shape) { return lstm_init_rule(of(config), parameter, shape); },
      .weights = WeightNames{.stored = own_name,
                             .prefix = "",
                             .role = role_by_classifier,
                             .is_own = every_tensor_is_own}};
  return family;
}

}  // namespace snug::models
