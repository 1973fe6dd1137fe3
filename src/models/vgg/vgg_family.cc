// SPDX-License-Identifier: Apache-2.0
// VGG as a family: its place in the program and its names in files.
#include <numeric>

#include "models/family.h"
#include "models/vgg/vgg.h"

namespace snug::models {
namespace {

const VggConfig& of(const FamilyConfig& config) { return config_of<VggConfig>(config); }

std::optional<FamilyConfig> preset(const RunConfig& run) {
  if (!run.model.starts_with("vgg-")) return std::nullopt;
  return vgg_preset(run.model);
}

void apply_keys(FamilyConfig& any, const RunConfig& run) {
  auto& config = config_of<VggConfig>(any);
  if (run.hidden_dropout_prob) config.dropout = *run.hidden_dropout_prob;
  if (run.image_size > 0) config.image_size = run.image_size;
}

void apply_facts(FamilyConfig& any, const ModelFacts& facts) {
  auto& config = config_of<VggConfig>(any);
  take_labels(facts, config.num_labels, config.labels);
}

ModelTraits traits(const FamilyConfig& any) {
  const VggConfig& config = of(any);
  return {.image_size = config.image_size,
          .image_channels = config.num_channels,
          .num_labels = config.num_labels,
          .labels = config.labels};
}

ProgramSize size(const FamilyConfig& config, int64_t) {
  const auto& depths = of(config).depths;
  return {.parts = std::accumulate(depths.begin(), depths.end(), int64_t{3})};
}

WeightRole role(const std::string& parameter) {
  return parameter.starts_with("classifier.6.") ? WeightRole::head : WeightRole::body;
}

}  // namespace

const ModelFamily& vgg_family() {
  static const ModelFamily family = {
      .name = "vgg",
      .input = InputKind::image,
      .model_types = std::vector<std::string>{"vgg"},
      .preset_names = std::vector<std::string>{"vgg-16", "vgg-19"},
      .heads = std::vector{HeadKind::row},
      .presets_help = "vgg-16, vgg-19",
      .keys = std::vector<ModelKey>{{"image_size", "side of the images; auto: the model's own"},
                                    {"hidden_dropout_prob", ""}},
      .preset = preset,
      .read = [](std::string_view json, const std::string& file, std::vector<std::string>* ignored)
          -> FamilyConfig { return vgg_config_from_json(json, file, ignored); },
      .write = [](const FamilyConfig& config) { return vgg_config_to_json(of(config)); },
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
            return build_vgg_classifier(builder, of(config), shape, options);
          },
      .init_rule = [](const FamilyConfig& config, const std::string& parameter,
                      const Shape& shape) { return vgg_init_rule(of(config), parameter, shape); },
      .weights =
          WeightNames{
              .stored = own_name, .prefix = "", .role = role, .is_own = every_tensor_is_own}};
  return family;
}

}  // namespace snug::models
