// SPDX-License-Identifier: Apache-2.0
// ResnetConfig: presets, validation, config.json in and out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "models/config_reader.h"
#include "models/resnet/resnet.h"
#include "snug/error.h"

namespace snug::models {
namespace {

ResnetConfig cifar(int64_t blocks_a_stage) {
  ResnetConfig config;
  config.depths = {blocks_a_stage, blocks_a_stage, blocks_a_stage};
  config.widths = {16, 32, 64};
  config.layer_type = "basic";
  config.stem = "cifar";
  config.shortcut = "padding";
  config.image_size = 32;
  config.num_labels = 10;
  return config;
}

struct ImagenetPreset {
  std::string_view name;
  std::vector<int64_t> depths;
  const char* layer_type = "bottleneck";
  bool preactivation = false;
};
const std::vector<ImagenetPreset>& imagenet_presets() {
  static const std::vector<ImagenetPreset> presets = {
      {"18", {2, 2, 2, 2}, "basic"},
      {"34", {3, 4, 6, 3}, "basic"},
      {"50", {3, 4, 6, 3}},
      {"101", {3, 4, 23, 3}},
      {"152", {3, 8, 36, 3}},
      {"200", {3, 24, 36, 3}, "bottleneck", true},
      {"imagenet-1000", {3, 131, 196, 3}, "bottleneck", true},
  };
  return presets;
}

[[noreturn]] void refuse_name(std::string_view name) {
  throw Error(
      ErrorCode::bad_config, "model", "there is no residual network \"" + std::string(name) + "\"",
      "resnet-18, -34, -50, -101, -152, -200 or -imagenet-1000 for ImageNet; resnet-20, -32, "
      "-44, -56, -110, -1202 (6n + 2), -164 or -1001 for CIFAR");
}

}  // namespace

ResnetConfig resnet_preset(std::string_view name) {
  constexpr std::string_view kPrefix = "resnet-";
  if (name.substr(0, kPrefix.size()) != kPrefix) refuse_name(name);
  const std::string_view size = name.substr(kPrefix.size());
  for (const ImagenetPreset& preset : imagenet_presets()) {
    if (preset.name != size) continue;
    ResnetConfig config;
    config.depths = preset.depths;
    config.layer_type = preset.layer_type;
    config.preactivation = preset.preactivation;
    return config;
  }
  const std::optional<int64_t> found = number_in<int64_t>(size);
  if (!found || *found > 100000) refuse_name(name);
  const int64_t depth = *found;
  if (depth == 164 || depth == 1001) {
    ResnetConfig config = cifar((depth - 2) / 9);
    config.layer_type = "bottleneck";
    config.preactivation = true;
    config.shortcut = "projection";
    return config;
  }
  if (depth < 8 || depth % 6 != 2) refuse_name(name);
  return cifar((depth - 2) / 6);
}

void validate(const ResnetConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  const auto is_positive = [](int64_t size) { return size >= 1; };
  if (config.depths.empty() ||
      !std::all_of(config.depths.begin(), config.depths.end(), is_positive))
    refuse("every stage needs at least one block in depths");
  check_depth("depths", config.depths, where);
  if (config.widths.size() != config.depths.size() ||
      !std::all_of(config.widths.begin(), config.widths.end(), is_positive)) {
    refuse("widths needs a number of at least 1 for each of the " +
           std::to_string(config.depths.size()) + " stages in depths");
  }
  constexpr int64_t kMostChannels = int64_t{1} << 24;
  if (std::any_of(config.widths.begin(), config.widths.end(),
                  [](int64_t width) { return width > kMostChannels; }))
    refuse("widths must be at most " + std::to_string(kMostChannels));
  const auto one_of = [&](const char* key, const std::string& value, const char* a, const char* b) {
    if (value != a && value != b)
      refuse(std::string(key) + " must be \"" + a + "\" or \"" + b + "\", not \"" + value + "\"");
  };
  one_of("layer_type", config.layer_type, "basic", "bottleneck");
  one_of("stem", config.stem, "imagenet", "cifar");
  one_of("shortcut", config.shortcut, "projection", "padding");
  if (config.shortcut == "padding" && !std::is_sorted(config.widths.begin(), config.widths.end()))
    refuse("a shortcut by padding needs widths that do not fall");
  if (config.image_size < 1) refuse("image_size must be at least 1");
  if (config.num_channels < 1) refuse("num_channels must be at least 1");
  if (config.num_labels < 1) refuse("num_labels must be at least 1");
  if (!(config.batch_norm_eps > 0)) refuse("batch_norm_eps must be above 0");
  if (!(config.batch_norm_momentum >= 0 && config.batch_norm_momentum <= 1))
    refuse("batch_norm_momentum must be between 0 and 1");
  check_labels(config.num_labels, config.labels, where);
}

}  // namespace snug::models
