// SPDX-License-Identifier: Apache-2.0
// The MLP as a family: its place in the program and its names in files.
#include "models/mlp/mlp.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

class MlpFamily final : public TextFamily<MlpConfig> {
 public:
  MlpFamily()
      : TextFamily(
            {.name = "mlp",
             .input = InputKind::text,
             .model_types = std::vector<std::string>{"mlp"},
             .preset_names = std::vector<std::string>{"mlp"},
             .heads = std::vector{HeadKind::row},
             .presets_help = "mlp",
             .keys =
                 std::vector<ModelKey>{
                     {"hidden_sizes", "the layers after the mean of the word embeddings", true},
                     {"hidden_dropout_prob", ""}},
             .prefix = ""}) {}

  // Nobody else writes files for the family.
  [[nodiscard]] bool is_own(const std::string&) const override { return true; }

 private:
  [[nodiscard]] std::optional<MlpConfig> find_preset(const RunConfig& run) const override {
    if (run.model != "mlp") return std::nullopt;
    MlpConfig config;
    config.hidden_sizes = run.hidden_sizes;
    return config;
  }
  [[nodiscard]] MlpConfig parse(std::string_view json, const std::string& file,
                                std::vector<std::string>* ignored) const override {
    return mlp_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const MlpConfig& config) const override {
    return mlp_config_to_json(config);
  }
  [[nodiscard]] ProgramSize size(const MlpConfig& config, int64_t) const override {
    return {.parts = std::ssize(config.hidden_sizes)};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const MlpConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_mlp_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const MlpConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return mlp_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& mlp_family() {
  static const MlpFamily family;
  return family;
}

}  // namespace snug::models
