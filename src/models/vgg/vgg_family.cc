// SPDX-License-Identifier: Apache-2.0
// VGG as a family: its place in the program and its names in files.
#include <numeric>

#include "models/image_family.h"
#include "models/vgg/vgg.h"

namespace snug::models {
namespace {

class VggFamily final : public ImageFamily<VggConfig> {
 public:
  VggFamily()
      : ImageFamily({.name = "vgg",
                     .input = InputKind::image,
                     .model_types = std::vector<std::string>{"vgg"},
                     .preset_names = std::vector<std::string>{"vgg-16", "vgg-19"},
                     .heads = std::vector{HeadKind::row},
                     .presets_help = "vgg-16, vgg-19",
                     .keys = std::vector<ModelKey>{{"image_size",
                                                    "side of the images; auto: the model's own"},
                                                   {"hidden_dropout_prob", ""}},
                     .prefix = ""}) {}

 private:
  [[nodiscard]] std::optional<VggConfig> find_preset(const RunConfig& run) const override {
    if (!run.model.starts_with("vgg-")) return std::nullopt;
    return vgg_preset(run.model);
  }
  [[nodiscard]] VggConfig parse(std::string_view json, const std::string& file,
                                std::vector<std::string>* ignored) const override {
    return vgg_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const VggConfig& config) const override {
    return vgg_config_to_json(config);
  }
  void take_keys(const RunConfig& run, VggConfig& config) const override {
    ImageFamily::take_keys(run, config);
    if (run.hidden_dropout_prob) config.dropout = *run.hidden_dropout_prob;
  }
  // A convolution has half a layer's ops.
  [[nodiscard]] ProgramSize size(const VggConfig& config, int64_t) const override {
    const int64_t layers = std::accumulate(config.depths.begin(), config.depths.end(), int64_t{3});
    return {.parts = (layers + 1) / 2};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const VggConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_vgg_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const VggConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return vgg_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return parameter.starts_with("classifier.6.") ? WeightRole::head : WeightRole::body;
  }
};

}  // namespace

const ModelFamily& vgg_family() {
  static const VggFamily family;
  return family;
}

}  // namespace snug::models
