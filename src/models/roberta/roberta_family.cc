// SPDX-License-Identifier: Apache-2.0
// RoBERTa, XLM-R and CamemBERT as a family: its place in the program and its names in files.
#include "models/roberta/roberta.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size.
struct RobertaPreset {
  const char* name;
  const char* model_type;
  int64_t words;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
};
constexpr RobertaPreset kRobertaPresets[] = {
    {"roberta-tiny", "roberta", 50265, 2, 128, 2},
    {"distilroberta-base", "roberta", 50265, 6, 768, 12},
    {"roberta-base", "roberta", 50265, 12, 768, 12},
    {"roberta-large", "roberta", 50265, 24, 1024, 16},
    {"xlm-roberta-base", "xlm-roberta", 250002, 12, 768, 12},
    {"xlm-roberta-large", "xlm-roberta", 250002, 24, 1024, 16}};

std::optional<RobertaConfig> roberta_preset(const std::string& name) {
  for (const RobertaPreset& preset : kRobertaPresets) {
    if (name != preset.name) continue;
    RobertaConfig config;
    config.model_type = preset.model_type;
    config.vocab_size = preset.words;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    config.max_position_embeddings = 514;
    config.type_vocab_size = 1;
    config.layer_norm_eps = 1e-5;
    return config;
  }
  return std::nullopt;
}

class RobertaFamily final : public TransformerFamily<RobertaConfig> {
 public:
  RobertaFamily()
      : TransformerFamily(
            {.name = "roberta",
             .model_types = std::vector<std::string>{"roberta", "xlm-roberta", "camembert"},
             .presets =
                 std::vector<std::string>{"roberta-tiny", "distilroberta-base", "roberta-base",
                                          "roberta-large", "xlm-roberta-base", "xlm-roberta-large"},
             .presets_help =
                 "roberta-tiny, roberta-base, roberta-large, distilroberta-base, xlm-roberta-base, "
                 "xlm-roberta-large",
             .prefix = "roberta."}) {}

  // What is left over from pretraining ("lm_head."), and the pooler that no head reads, are no sign
  // of another network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(tensor, {"roberta.embeddings.", "roberta.encoder.", "embeddings.",
                                    "encoder.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<RobertaConfig> find_preset(const RunConfig& run) const override {
    return roberta_preset(run.model);
  }
  [[nodiscard]] RobertaConfig parse(std::string_view json, const std::string& file,
                                    std::vector<std::string>* ignored) const override {
    return roberta_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const RobertaConfig& config) const override {
    return roberta_config_to_json(config);
  }
  void take_facts(const ModelFacts& facts, RobertaConfig& config) const override {
    take_encoder_facts(facts, config);
  }
  [[nodiscard]] ProgramSize size(const RobertaConfig& config, int64_t) const override {
    return {.parts = config.num_hidden_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const RobertaConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_roberta_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const RobertaConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return encoder_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& roberta_family() {
  static const RobertaFamily family;
  return family;
}

}  // namespace snug::models
