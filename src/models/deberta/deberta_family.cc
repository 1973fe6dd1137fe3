// SPDX-License-Identifier: Apache-2.0
// DeBERTa v2 and v3 as a family: its place in the program and its names in files.
#include "models/deberta/deberta.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

class DebertaFamily final : public TransformerFamily<DebertaConfig> {
 public:
  DebertaFamily()
      : TransformerFamily(
            {.name = "deberta",
             .model_types = std::vector<std::string>{"deberta-v2", "deberta"},
             .presets =
                 std::vector<std::string>{"deberta-v3-tiny", "deberta-v3-xsmall",
                                          "deberta-v3-small", "deberta-v3-base", "deberta-v3-large",
                                          "mdeberta-v3-base", "deberta-v2-xlarge"},
             .presets_help = "deberta-v3-tiny, -xsmall, -small, -base, -large, mdeberta-v3-base, "
                             "deberta-v2-xlarge",
             .prefix = "deberta."}) {}

  // What is left over from pretraining ("lm_predictions.", "mask_predictions.", "cls.") is no sign
  // of another network. Published files of v3 have a table of positions that the network has no use
  // for.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    if (tensor.ends_with("embeddings.position_embeddings.weight")) return false;
    return starts_with_any(tensor,
                           {"deberta.", "embeddings.", "encoder.", "pooler.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<DebertaConfig> find_preset(const RunConfig& run) const override {
    return find_deberta_preset(run.model);
  }
  [[nodiscard]] DebertaConfig parse(std::string_view json, const std::string& file,
                                    std::vector<std::string>* ignored) const override {
    return deberta_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const DebertaConfig& config) const override {
    return deberta_config_to_json(config);
  }
  // A layer also projects the table of distances, forward and backward.
  [[nodiscard]] ProgramSize size(const DebertaConfig& config, int64_t) const override {
    return {.parts = 2 * config.num_hidden_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const DebertaConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_deberta_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const DebertaConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return deberta_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return parameter.starts_with("pooler.") ? WeightRole::pooler : role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& deberta_family() {
  static const DebertaFamily family;
  return family;
}

}  // namespace snug::models
