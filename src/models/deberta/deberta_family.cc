// SPDX-License-Identifier: Apache-2.0
// DeBERTa v2 and v3 as a family: its place in the program and its names in files.
#include "models/deberta/deberta.h"
#include "models/family.h"
#include "models/text_head.h"

namespace snug::models {
namespace {

const DebertaConfig& of(const FamilyConfig& config) { return config_of<DebertaConfig>(config); }

// The published networks, and one of BERT-tiny's size.
struct Preset {
  const char* name;
  int64_t words;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
  int64_t intermediate;
};
constexpr Preset kPresets[] = {{"deberta-v3-tiny", 32000, 2, 128, 2, 512},
                               {"deberta-v3-xsmall", 128100, 12, 384, 6, 1536},
                               {"deberta-v3-small", 128100, 6, 768, 12, 3072},
                               {"deberta-v3-base", 128100, 12, 768, 12, 3072},
                               {"deberta-v3-large", 128100, 24, 1024, 16, 4096},
                               {"mdeberta-v3-base", 251000, 12, 768, 12, 3072},
                               {"deberta-v2-xlarge", 128100, 24, 1536, 24, 6144}};

std::optional<FamilyConfig> preset(const RunConfig& run) {
  for (const Preset& preset : kPresets) {
    if (run.model != preset.name) continue;
    DebertaConfig config;
    config.vocab_size = preset.words;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = preset.intermediate;
    config.position_biased_input = false;
    config.relative_attention = true;
    config.share_att_key = true;
    config.content_to_position = true;
    config.position_to_content = true;
    config.position_buckets = 256;
    config.has_relative_norm = true;
    if (run.model == "deberta-v2-xlarge") {
      config.conv_kernel_size = 3;
      config.conv_act = "gelu";
    }
    return config;
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

// As BERT's: the classifier follows the hidden states where their dropout is given.
void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<DebertaConfig>(any);
  if (run.hidden_dropout_prob) {
    config.hidden_dropout_prob = *run.hidden_dropout_prob;
    config.cls_dropout.reset();
  }
  if (run.attention_probs_dropout_prob)
    config.attention_probs_dropout_prob = *run.attention_probs_dropout_prob;
  apply_text_head_keys(run, config.text_head);
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<DebertaConfig>(any);
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  take_labels(facts, config.num_labels, config.labels);
  if (facts.head) config.head = *facts.head;
}

ModelTraits traits(const FamilyConfig& any) {
  const DebertaConfig& config = of(any);
  return {.vocab_size = config.vocab_size,
          .max_positions = config.max_positions(),
          .num_labels = config.num_labels,
          .labels = config.labels,
          .head = config.head,
          .text_head = config.text_head};
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("pooler.") ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("lm_predictions.", "mask_predictions.", "cls.") is no sign of
// another network. Published files of v3 have a table of positions that the network has no use for.
bool is_own(const std::string& tensor) {
  if (tensor.ends_with("embeddings.position_embeddings.weight")) return false;
  for (const char* prefix : {"deberta.", "embeddings.", "encoder.", "pooler.", "classifier."}) {
    if (tensor.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

const ModelFamily& deberta_family() {
  static const ModelFamily family = {
      .name = "deberta",
      .input = InputKind::text,
      .model_types = std::vector<std::string>{"deberta-v2", "deberta"},
      .preset_names = preset_names(),
      .heads = std::vector{HeadKind::row, HeadKind::token},
      .presets_help =
          "deberta-v3-tiny, -xsmall, -small, -base, -large, mdeberta-v3-base, "
          "deberta-v2-xlarge",
      .keys =
          with_text_head_keys({{"hidden_dropout_prob", ""}, {"attention_probs_dropout_prob", ""}}),
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return deberta_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return deberta_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits = traits,
      .size =
          [](const FamilyConfig& config, int64_t) {
            // A layer also projects the table of distances, forward and backward.
            return ProgramSize{.parts = 2 * of(config).num_hidden_layers};
          },
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_deberta_classifier(builder, of(config), shape, options);
          },
      .init_rule = [](const FamilyConfig& config, const std::string& parameter,
                      const Shape&) { return deberta_init_rule(of(config), parameter); },
      .weights =
          WeightNames{.stored = own_name, .prefix = "deberta.", .role = role, .is_own = is_own}};
  return family;
}

}  // namespace snug::models
