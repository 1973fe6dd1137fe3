// SPDX-License-Identifier: Apache-2.0
// DistilBERT as a family: its place in the program and its names in files.
#include "models/distilbert/distilbert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published network, and one of BERT-tiny's size.
std::optional<DistilbertConfig> distilbert_preset(const std::string& name) {
  DistilbertConfig config;
  if (name == "distilbert-base") return config;
  if (name != "distilbert-tiny") return std::nullopt;
  config.dim = 128;
  config.n_layers = 2;
  config.n_heads = 2;
  config.hidden_dim = 512;
  return config;
}

class DistilbertFamily final : public TransformerFamily<DistilbertConfig> {
 public:
  DistilbertFamily()
      : TransformerFamily(
            {.name = "distilbert",
             .model_types = std::vector<std::string>{"distilbert"},
             .presets = std::vector<std::string>{"distilbert-tiny", "distilbert-base"},
             .presets_help = "distilbert-tiny, distilbert-base",
             .prefix = "distilbert."}) {}

  // What is left over from pretraining ("vocab_transform.") is no sign of another network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(
        tensor, {"distilbert.", "embeddings.", "transformer.", "pre_classifier.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<DistilbertConfig> find_preset(const RunConfig& run) const override {
    return distilbert_preset(run.model);
  }
  [[nodiscard]] DistilbertConfig parse(std::string_view json, const std::string& file,
                                       std::vector<std::string>* ignored) const override {
    return distilbert_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const DistilbertConfig& config) const override {
    return distilbert_config_to_json(config);
  }
  [[nodiscard]] ProgramSize size(const DistilbertConfig& config, int64_t) const override {
    return {.parts = config.n_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const DistilbertConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_distilbert_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const DistilbertConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return distilbert_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return parameter.starts_with("pre_classifier.") ? WeightRole::head
                                                    : role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& distilbert_family() {
  static const DistilbertFamily family;
  return family;
}

}  // namespace snug::models
