// SPDX-License-Identifier: Apache-2.0
// DistilBERT as a family: its place in the program and its names in files.
#include "models/distilbert/distilbert.h"
#include "models/family.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const DistilbertConfig& of(const FamilyConfig& config) {
  return config_of<DistilbertConfig>(config);
}

// The published network, and one of BERT-tiny's size.
std::optional<FamilyConfig> preset(const RunConfig& run) {
  DistilbertConfig config;
  if (run.model == "distilbert-base") return config;
  if (run.model != "distilbert-tiny") return std::nullopt;
  config.dim = 128;
  config.n_layers = 2;
  config.n_heads = 2;
  config.hidden_dim = 512;
  return config;
}

// As BERT's: the classifier follows the hidden states where their dropout is given.
void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<DistilbertConfig>(any);
  if (run.hidden_dropout_prob) {
    config.dropout = *run.hidden_dropout_prob;
    config.seq_classif_dropout = *run.hidden_dropout_prob;
  }
  if (run.attention_probs_dropout_prob)
    config.attention_dropout = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<DistilbertConfig>(any);
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

ModelTraits traits(const FamilyConfig& any) {
  const DistilbertConfig& config = of(any);
  return {.vocab_size = config.vocab_size,
          .max_positions = config.max_position_embeddings,
          .num_labels = config.num_labels,
          .labels = config.labels,
          .head = config.head,
          .text_head = config.text_head};
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("pre_classifier.") ? WeightRole::head
                                                  : role_by_classifier(parameter);
}

// What is left over from pretraining ("vocab_transform.") is no sign of another network.
bool is_own(const std::string& tensor) {
  for (const char* prefix :
       {"distilbert.", "embeddings.", "transformer.", "pre_classifier.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& distilbert_family() {
  static const ModelFamily family = {
      .name = "distilbert",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"distilbert"},
      .preset_names = std::vector<std::string>{"distilbert-tiny", "distilbert-base"},
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help = "distilbert-tiny, distilbert-base",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return distilbert_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return distilbert_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits = traits,
      .size = [](const FamilyConfig& config,
                 int64_t) { return ProgramSize{.parts = of(config).n_layers}; },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_distilbert_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return distilbert_init_rule(of(config), parameter, shape);
          },
      .weights =
          WeightNames{.stored = own_name, .prefix = "distilbert.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
