// SPDX-License-Identifier: Apache-2.0
// ModernBERT as a family: its place in the program and its names in files.
#include "models/family.h"
#include "models/modernbert/modernbert.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const ModernbertConfig& of(const FamilyConfig& config) {
  return config_of<ModernbertConfig>(config);
}

// The published networks, and one of BERT-tiny's size with layers of both kinds.
std::optional<FamilyConfig> preset(const RunConfig& run) {
  ModernbertConfig config;
  if (run.model == "modernbert-base") return config;
  if (run.model == "modernbert-large") {
    config.hidden_size = 1024;
    config.intermediate_size = 2624;
    config.num_hidden_layers = 28;
    config.num_attention_heads = 16;
    return config;
  }
  if (run.model != "modernbert-tiny") return std::nullopt;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  return config;
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<ModernbertConfig>(any);
  if (run.hidden_dropout_prob) {
    config.embedding_dropout = *run.hidden_dropout_prob;
    config.mlp_dropout = *run.hidden_dropout_prob;
    config.classifier_dropout = *run.hidden_dropout_prob;
  }
  if (run.attention_probs_dropout_prob)
    config.attention_dropout = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<ModernbertConfig>(any);
  if (facts.pad_token_id) config.pad_token_id = *facts.pad_token_id;
  if (facts.vocab_size > 0) {
    config.vocab_size = facts.vocab_size;
    // A vocabulary of the user's own has no such ids.
    for (int64_t* id : {&config.pad_token_id, &config.cls_token_id, &config.sep_token_id,
                        &config.bos_token_id, &config.eos_token_id}) {
      if (*id >= facts.vocab_size) *id = -1;
    }
  }
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

ModelTraits traits(const FamilyConfig& any) {
  const ModernbertConfig& config = of(any);
  return {.vocab_size = config.vocab_size,
          .max_positions = config.max_position_embeddings,
          .num_labels = config.num_labels,
          .labels = config.labels,
          .head = config.head,
          .text_head = config.text_head};
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("head.") ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("decoder.") is no sign of another network.
bool is_own(const std::string& tensor) {
  for (const char* prefix :
       {"model.", "embeddings.", "layers.", "final_norm.", "head.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& modernbert_family() {
  static const ModelFamily family = {
      .name = "modernbert",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"modernbert"},
      .preset_names =
          std::vector<std::string>{"modernbert-tiny", "modernbert-base", "modernbert-large"},
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help = "modernbert-tiny, modernbert-base, modernbert-large",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return modernbert_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return modernbert_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits = traits,
      .size = [](const FamilyConfig& config,
                 int64_t) { return ProgramSize{.parts = of(config).num_hidden_layers}; },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_modernbert_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return modernbert_init_rule(of(config), parameter, shape);
          },
      .weights =
          WeightNames{.stored = own_name, .prefix = "model.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
