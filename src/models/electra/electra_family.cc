// SPDX-License-Identifier: Apache-2.0
// ELECTRA's discriminator as a family: its place in the program and its names in files.
#include "models/electra/electra.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size.
struct ElectraPreset {
  const char* name;
  int64_t layers;
  int64_t embedding;
  int64_t hidden;
  int64_t heads;
};
constexpr ElectraPreset kElectraPresets[] = {{"electra-tiny", 2, 64, 128, 2},
                                             {"electra-small", 12, 128, 256, 4},
                                             {"electra-base", 12, 768, 768, 12},
                                             {"electra-large", 24, 1024, 1024, 16}};

std::optional<ElectraConfig> electra_preset(const std::string& name) {
  for (const ElectraPreset& preset : kElectraPresets) {
    if (name != preset.name) continue;
    ElectraConfig config;
    config.num_hidden_layers = preset.layers;
    config.embedding_size = preset.embedding;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    return config;
  }
  return std::nullopt;
}

class ElectraFamily final : public TransformerFamily<ElectraConfig> {
 public:
  ElectraFamily()
      : TransformerFamily(
            {.name = "electra",
             .model_types = std::vector<std::string>{"electra"},
             .presets = std::vector<std::string>{"electra-tiny", "electra-small", "electra-base",
                                                 "electra-large"},
             .presets_help = "electra-tiny, electra-small, electra-base, electra-large",
             .prefix = "electra."}) {}

  // What is left over from pretraining ("discriminator_predictions.") is no sign of another
  // network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(
        tensor, {"electra.", "embeddings.", "embeddings_project.", "encoder.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<ElectraConfig> find_preset(const RunConfig& run) const override {
    return electra_preset(run.model);
  }
  [[nodiscard]] ElectraConfig parse(std::string_view json, const std::string& file,
                                    std::vector<std::string>* ignored) const override {
    return electra_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const ElectraConfig& config) const override {
    return electra_config_to_json(config);
  }
  void take_facts(const ModelFacts& facts, ElectraConfig& config) const override {
    take_encoder_facts(facts, config);
  }
  [[nodiscard]] ProgramSize size(const ElectraConfig& config, int64_t) const override {
    return {.parts = config.num_hidden_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const ElectraConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_electra_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const ElectraConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return encoder_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& electra_family() {
  static const ElectraFamily family;
  return family;
}

}  // namespace snug::models
