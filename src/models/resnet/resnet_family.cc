// SPDX-License-Identifier: Apache-2.0
// Residual networks as a family: its place in the program and its names in files.
#include <numeric>

#include "models/family.h"
#include "models/resnet/resnet.h"

namespace snug::models {
namespace {

const ResnetConfig& of(const FamilyConfig& config) { return config_of<ResnetConfig>(config); }

std::optional<FamilyConfig> preset(const RunConfig& run) {
  if (!run.model.starts_with("resnet-")) return std::nullopt;
  return resnet_preset(run.model);
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<ResnetConfig>(any);
  if (run.image_size > 0) config.image_size = run.image_size;
  if (!run.stage_blocks.empty()) config.depths = run.stage_blocks;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<ResnetConfig>(any);
  take_labels(facts, config.num_labels, config.labels);
}

ModelTraits traits(const FamilyConfig& any) {
  const ResnetConfig& config = of(any);
  return {.image_size = config.image_size,
          .image_channels = config.num_channels,
          .num_labels = config.num_labels,
          .labels = config.labels,
          .has_batch_statistics = true};
}

// A residual block has half a layer's ops.
ProgramSize size(const FamilyConfig& config, int64_t) {
  const auto& depths = of(config).depths;
  return {.parts = std::accumulate(depths.begin(), depths.end(), int64_t{3}) / 2};
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("fc.") ? WeightRole::head : WeightRole::body;
}

std::string stored_name(const FamilyConfig& config, const std::string& parameter) {
  return resnet_stored_name(of(config), parameter);
}

}  // namespace

const ModelFamily& resnet_family() {
  static const ModelFamily family = {
      .name = "resnet",
      .input = InputKind::image,
      .model_types = std::vector<std::string>{"resnet", "snug_resnet"},
      .preset_names =
          std::vector<std::string>{"resnet-18", "resnet-50", "resnet-200", "resnet-imagenet-1000",
                                   "resnet-20", "resnet-110", "resnet-1202"},
      .heads = std::vector{HeadKind::row},
      .presets_help =
          "resnet-18 to resnet-200 and resnet-imagenet-1000 (ImageNet), resnet-20 to resnet-1202 "
          "(CIFAR)",
      .keys =
          std::vector<ModelKey>{
              {"image_size", "side of the images; auto: the model's own"},
              {"stage_blocks",
               "blocks of each stage, for any depth (3,24,36,3); empty: the model's own"}},
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return resnet_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return resnet_config_to_json(of(config)); },
      .is_equal = [](const FamilyConfig& a, const FamilyConfig& b) { return of(a) == of(b); },
      .apply_keys = apply_keys,
      .apply_facts = apply_facts,
      .check = [](const FamilyConfig& config,
                  const std::string& where) { validate(of(config), where); },
      .traits = traits,
      .size = size,
      .build =
          [](const FamilyConfig& config, GraphBuilder& builder, BatchShape shape,
             const BuildOptions& options) {
            return build_resnet_classifier(builder, of(config), shape, options);
          },
      .init_rule =
          [](const FamilyConfig& config, const std::string& parameter, const Shape& shape) {
            return resnet_init_rule(of(config), parameter, shape);
          },
      .weights = WeightNames{.stored = stored_name,
                             .prefix = "resnet.",
                             .role = role,
                             .is_own = every_tensor_is_own}};
  return family;
}

}  // namespace snug::models
