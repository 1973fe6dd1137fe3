// SPDX-License-Identifier: Apache-2.0
// VggConfig: presets, validation, config.json in and out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "models/vgg/vgg.h"
#include "snug/error.h"

namespace snug::models {

VggConfig vgg_preset(std::string_view name) {
  VggConfig config;
  if (name == "vgg-16") return config;
  if (name == "vgg-19") {
    config.depths = {2, 2, 4, 4, 4};
    return config;
  }
  throw Error(ErrorCode::bad_config, "model", "there is no VGG \"" + std::string(name) + "\"",
              "vgg-16 or vgg-19");
}

void validate(const VggConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  const auto is_positive = [](int64_t size) { return size >= 1; };
  if (config.depths.empty() ||
      !std::all_of(config.depths.begin(), config.depths.end(), is_positive))
    refuse("every stage needs at least one convolution in depths");
  check_depth("depths", config.depths, where);
  if (config.widths.size() != config.depths.size() ||
      !std::all_of(config.widths.begin(), config.widths.end(), is_positive)) {
    refuse("widths needs a number of at least 1 for each of the " +
           std::to_string(config.depths.size()) + " stages in depths");
  }
  if (config.hidden_size < 1) refuse("hidden_size must be at least 1");
  if (config.num_channels < 1) refuse("num_channels must be at least 1");
  if (config.num_labels < 1) refuse("num_labels must be at least 1");
  if (!(config.dropout >= 0 && config.dropout < 1))
    refuse("dropout must be at least 0 and below 1");
  const int64_t side = config.image_size >> config.depths.size();
  if (config.image_size < 1 || side < 1) {
    refuse("image_size " + std::to_string(config.image_size) + " is halved " +
           std::to_string(config.depths.size()) + " times: nothing is left");
  }
  if (side > 7 && side % 7 != 0) {
    refuse("image_size " + std::to_string(config.image_size) + " gives a feature map of side " +
           std::to_string(side) + "; above 7 it must be a multiple of 7 (images of 224, 448, ...)");
  }
  check_labels(config.num_labels, config.labels, where);
}

VggConfig vgg_config_from_json(std::string_view json, const std::string& file,
                               std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "vgg", "the model is not a VGG");
  VggConfig config;
  reader.read_ints("depths", config.depths, 1);
  reader.read_ints("widths", config.widths, 1);
  reader.read_int("hidden_size", config.hidden_size, 1);
  reader.read_number("dropout", config.dropout, 1);
  reader.read_int("image_size", config.image_size, 1);
  reader.read_int("num_channels", config.num_channels, 1);
  reader.read_labels(config.num_labels, config.labels);
  (void)reader.read_class();
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string vgg_config_to_json(const VggConfig& config) {
  nlohmann::ordered_json json = {{"architectures", {"SnugVggForImageClassification"}},
                                 {"model_type", "vgg"},
                                 {"depths", config.depths},
                                 {"widths", config.widths},
                                 {"hidden_size", config.hidden_size},
                                 {"dropout", config.dropout},
                                 {"image_size", config.image_size},
                                 {"num_channels", config.num_channels}};
  append_labels(json, config.labels, config.num_labels);
  return json.dump(2) + "\n";
}

}  // namespace snug::models
