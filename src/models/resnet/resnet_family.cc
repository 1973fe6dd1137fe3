// SPDX-License-Identifier: Apache-2.0
// Residual networks as a family: its place in the program and its names in files.
#include <numeric>

#include "models/image_family.h"
#include "models/resnet/resnet.h"

namespace snug::models {
namespace {

class ResnetFamily final : public ImageFamily<ResnetConfig> {
 public:
  ResnetFamily()
      : ImageFamily(
            {.name = "resnet",
             .input = InputKind::image,
             .model_types = std::vector<std::string>{"resnet", "snug_resnet"},
             .preset_names = std::vector<std::string>{"resnet-18", "resnet-50", "resnet-200",
                                                      "resnet-imagenet-1000", "resnet-20",
                                                      "resnet-110", "resnet-1202"},
             .heads = std::vector{HeadKind::row},
             .presets_help = "resnet-18 to resnet-200 and resnet-imagenet-1000 (ImageNet), "
                             "resnet-20 to resnet-1202 (CIFAR)",
             .keys =
                 std::vector<ModelKey>{
                     {"image_size", "side of the images; auto: the model's own"},
                     {"stage_blocks",
                      "blocks of each stage, for any depth (3,24,36,3); empty: the model's own"}},
             .prefix = "resnet."}) {}

 private:
  [[nodiscard]] std::optional<ResnetConfig> find_preset(const RunConfig& run) const override {
    if (!run.model.starts_with("resnet-")) return std::nullopt;
    return resnet_preset(run.model);
  }
  [[nodiscard]] ResnetConfig parse(std::string_view json, const std::string& file,
                                   std::vector<std::string>* ignored) const override {
    return resnet_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const ResnetConfig& config) const override {
    return resnet_config_to_json(config);
  }
  void take_keys(const RunConfig& run, ResnetConfig& config) const override {
    ImageFamily::take_keys(run, config);
    if (!run.stage_blocks.empty()) config.depths = run.stage_blocks;
  }
  [[nodiscard]] ModelTraits traits(const ResnetConfig& config) const override {
    ModelTraits traits = ImageFamily::traits(config);
    traits.has_batch_statistics = true;
    return traits;
  }
  // A residual block has half a layer's ops.
  [[nodiscard]] ProgramSize size(const ResnetConfig& config, int64_t) const override {
    const int64_t blocks = std::accumulate(config.depths.begin(), config.depths.end(), int64_t{3});
    return {.parts = blocks / 2};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const ResnetConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_resnet_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const ResnetConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return resnet_init_rule(config, parameter, shape);
  }
  [[nodiscard]] std::string stored_name(const ResnetConfig& config,
                                        const std::string& parameter) const override {
    return resnet_stored_name(config, parameter);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return parameter.starts_with("fc.") ? WeightRole::head : WeightRole::body;
  }
};

}  // namespace

const ModelFamily& resnet_family() {
  static const ResnetFamily family;
  return family;
}

}  // namespace snug::models
