// SPDX-License-Identifier: Apache-2.0
// Residual networks in files: config.json and names of weights, as transformers has them where its
// network is the same, else Snug's own configuration with torchvision's names.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "models/config_reader.h"
#include "models/resnet/resnet.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr int64_t kBottleneckReduction = 4;
constexpr double kTransformersEps = 1e-5;

int64_t expansion_of(const std::string& layer_type) {
  return layer_type == "bottleneck" ? kBottleneckReduction : 1;
}

void read_transformers(ConfigReader& reader, ResnetConfig& config, const std::string& file) {
  reader.require_text("hidden_act", "relu", "residual networks have relu only");
  reader.require_bool("downsample_in_first_stage", false, "the first stage keeps its size");
  reader.require_bool("downsample_in_bottleneck", false,
                      "strides are in the 3x3 convolution of a bottleneck");
  std::vector<int64_t> sizes = {256, 512, 1024, 2048};
  int64_t stem = 64;
  reader.read_ints("hidden_sizes", sizes, 1);
  reader.read_ints("depths", config.depths, 1);
  reader.read("layer_type", config.layer_type);
  reader.read_int("embedding_size", stem, 1);
  config.widths = sizes;
  if (config.layer_type != "bottleneck" && config.layer_type != "basic")
    return;  // validate says it
  config.widths.clear();
  for (const int64_t size : sizes) {
    if (size % expansion_of(config.layer_type) != 0) {
      throw Error(ErrorCode::bad_config, file,
                  "hidden_sizes has " + std::to_string(size) +
                      ", which a bottleneck cannot divide by " +
                      std::to_string(kBottleneckReduction));
    }
    config.widths.push_back(size / expansion_of(config.layer_type));
  }
  if (config.widths.empty() || config.widths.front() != stem) {
    throw Error(ErrorCode::unsupported, file,
                "embedding_size is " + std::to_string(stem) +
                    ", which is not the width of the first stage's 3x3 convolutions",
                "the networks of He et al. have 64 and 64");
  }
  reader.expect({"transformers_version", "torch_dtype", "dtype", "out_features", "out_indices",
                 "stage_names", "_name_or_path", "problem_type", "output_attentions",
                 "output_hidden_states", "return_dict"});
}

void read_own(ConfigReader& reader, ResnetConfig& config) {
  reader.require_text("hidden_act", "relu", "residual networks have relu only");
  reader.read_ints("depths", config.depths, 1);
  reader.read_ints("widths", config.widths, 1);
  reader.read("layer_type", config.layer_type);
  reader.read("preactivation", config.preactivation);
  reader.read("stem", config.stem);
  reader.read("shortcut", config.shortcut);
  reader.read_number("batch_norm_eps", config.batch_norm_eps, 1);
}

std::string replaced(const std::string& text, size_t size, const std::string& by) {
  return by + text.substr(size);
}

}  // namespace

bool is_transformers_resnet(const ResnetConfig& config) {
  return config.stem == "imagenet" && config.shortcut == "projection" && !config.preactivation &&
         config.batch_norm_eps == kTransformersEps;
}

std::string resnet_stored_name(const ResnetConfig& config, const std::string& parameter) {
  if (!is_transformers_resnet(config)) return parameter;
  const std::string stem = "resnet.embedder.embedder.";
  if (parameter.starts_with("conv1.")) return replaced(parameter, 5, stem + "convolution");
  if (parameter.starts_with("bn1.")) return replaced(parameter, 3, stem + "normalization");
  if (parameter.starts_with("fc.")) return replaced(parameter, 2, "classifier.1");
  // layerS.B.PART.REST
  const size_t stage_end = parameter.find('.');
  const size_t block_end = parameter.find('.', stage_end + 1);
  const std::string block =
      "resnet.encoder.stages." +
      std::to_string(number_in<int>(parameter.substr(5, stage_end - 5)).value() - 1) + ".layers" +
      parameter.substr(stage_end, block_end - stage_end) + ".";
  const std::string part = parameter.substr(block_end + 1);
  if (part.starts_with("downsample.0")) return replaced(part, 12, block + "shortcut.convolution");
  if (part.starts_with("downsample.1")) return replaced(part, 12, block + "shortcut.normalization");
  const bool is_conv = part.starts_with("conv");
  const size_t number = is_conv ? 4 : 2;  // "convK" or "bnK"
  return replaced(part, number + 1,
                  block + "layer." + std::to_string(part[number] - '1') +
                      (is_conv ? ".convolution" : ".normalization"));
}

ResnetConfig resnet_config_from_json(std::string_view json, const std::string& file,
                                     std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  ResnetConfig config;
  const auto type = reader.find("model_type");
  bool is_own = type && type->as_string() == "snug_resnet";
  // Older versions of Snug wrote their own fields under transformers' name.
  for (const char* key : {"widths", "stem", "shortcut", "preactivation"})
    is_own = is_own || reader.find(key);
  if (is_own) {
    read_own(reader, config);
  } else {
    reader.require_text("model_type", "resnet", "the model is not a residual network");
    read_transformers(reader, config, file);
  }
  reader.read_int("image_size", config.image_size, 1);
  reader.read_int("num_channels", config.num_channels, 1);
  reader.read_number("batch_norm_momentum", config.batch_norm_momentum, 1);
  reader.read_labels(config.num_labels, config.labels);
  (void)reader.read_class();
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string resnet_config_to_json(const ResnetConfig& config) {
  nlohmann::ordered_json json;
  if (is_transformers_resnet(config)) {
    std::vector<int64_t> sizes;
    for (const int64_t width : config.widths)
      sizes.push_back(width * expansion_of(config.layer_type));
    json = {{"architectures", {"ResNetForImageClassification"}},
            {"model_type", "resnet"},
            {"embedding_size", config.widths.front()},
            {"hidden_sizes", sizes},
            {"depths", config.depths},
            {"layer_type", config.layer_type},
            {"hidden_act", "relu"},
            {"downsample_in_first_stage", false},
            {"downsample_in_bottleneck", false}};
  } else {
    json = {{"architectures", {"SnugResnetForImageClassification"}},
            {"model_type", "snug_resnet"},
            {"depths", config.depths},
            {"widths", config.widths},
            {"layer_type", config.layer_type},
            {"preactivation", config.preactivation},
            {"stem", config.stem},
            {"shortcut", config.shortcut},
            {"batch_norm_eps", config.batch_norm_eps}};
  }
  json["image_size"] = config.image_size;
  json["num_channels"] = config.num_channels;
  json["batch_norm_momentum"] = config.batch_norm_momentum;
  append_labels(json, config.labels, config.num_labels);
  return json.dump(2) + "\n";
}

}  // namespace snug::models
