// SPDX-License-Identifier: Apache-2.0
// ModernBERT as a family: its place in the program and its names in files.
#include "models/modernbert/modernbert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size with layers of both kinds.
std::optional<ModernbertConfig> modernbert_preset(const std::string& name) {
  ModernbertConfig config;
  if (name == "modernbert-base") return config;
  if (name == "modernbert-large") {
    config.hidden_size = 1024;
    config.intermediate_size = 2624;
    config.num_hidden_layers = 28;
    config.num_attention_heads = 16;
    return config;
  }
  if (name != "modernbert-tiny") return std::nullopt;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  return config;
}

class ModernbertFamily final : public TransformerFamily<ModernbertConfig> {
 public:
  ModernbertFamily()
      : TransformerFamily({.name = "modernbert",
                           .model_types = std::vector<std::string>{"modernbert"},
                           .presets = std::vector<std::string>{"modernbert-tiny", "modernbert-base",
                                                               "modernbert-large"},
                           .presets_help = "modernbert-tiny, modernbert-base, modernbert-large",
                           .prefix = "model."}) {}

  // What is left over from pretraining ("decoder.") is no sign of another network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(
        tensor, {"model.", "embeddings.", "layers.", "final_norm.", "head.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<ModernbertConfig> find_preset(const RunConfig& run) const override {
    return modernbert_preset(run.model);
  }
  [[nodiscard]] ModernbertConfig parse(std::string_view json, const std::string& file,
                                       std::vector<std::string>* ignored) const override {
    return modernbert_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const ModernbertConfig& config) const override {
    return modernbert_config_to_json(config);
  }
  void take_facts(const ModelFacts& facts, ModernbertConfig& config) const override {
    if (facts.pad_token_id) config.pad_token_id = *facts.pad_token_id;
    TransformerFamily::take_facts(facts, config);
    // A vocabulary of the user's own has no such ids.
    for (int64_t* id : {&config.pad_token_id, &config.cls_token_id, &config.sep_token_id,
                        &config.bos_token_id, &config.eos_token_id}) {
      if (*id >= config.vocab_size) *id = -1;
    }
  }
  [[nodiscard]] ProgramSize size(const ModernbertConfig& config, int64_t) const override {
    return {.parts = config.num_hidden_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const ModernbertConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_modernbert_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const ModernbertConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return modernbert_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return parameter.starts_with("head.") ? WeightRole::pooler : role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& modernbert_family() {
  static const ModernbertFamily family;
  return family;
}

}  // namespace snug::models
