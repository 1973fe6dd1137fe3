// SPDX-License-Identifier: Apache-2.0
#include "setup/image_processor.h"

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"

namespace snug::train {
namespace {

using Channels = std::array<double, static_cast<size_t>(data::kCifarChannels)>;

constexpr double kMost = 1e6;

void read_channels(const io::JsonValue& file, const char* key, double above, Channels& values) {
  const auto field = file.find(key);
  if (!field) return;
  if (!field->is_array() || field->size() != data::kCifarChannels)
    field->fail("must be a list of " + std::to_string(data::kCifarChannels) + " numbers");
  for (int64_t c = 0; c < data::kCifarChannels; ++c) {
    const double value = field->at(c).as_double();
    if (!(value > above && value < kMost)) field->at(c).fail("is no value of a channel");
    values[static_cast<size_t>(c)] = value;
  }
}

}  // namespace

data::ImageNormalization read_normalization(const std::string& folder) {
  data::ImageNormalization normalization;
  const std::string path = folder + "/" + kImageProcessorFile;
  if (!io::has_file(path)) return normalization;
  const io::JsonValue file = io::load_json(path);
  const double factor = file.get_double("rescale_factor", 1.0 / normalization.divisor);
  if (!(factor > 1 / kMost && factor < kMost)) file.at("rescale_factor").fail("is no factor");
  normalization.divisor = file.get_bool("do_rescale", true) ? 1 / factor : 1;
  if (!file.get_bool("do_normalize", true)) {
    normalization.mean = {0, 0, 0};
    normalization.deviation = {1, 1, 1};
    return normalization;
  }
  read_channels(file, "image_mean", -kMost, normalization.mean);
  read_channels(file, "image_std", 0, normalization.deviation);
  return normalization;
}

std::string image_processor_json(const Model& model) {
  const nlohmann::ordered_json json = {
      {"image_processor_type", "ViTImageProcessor"},
      {"do_resize", true},
      {"size", {{"height", model.traits.image_size}, {"width", model.traits.image_size}}},
      {"resample", 2},
      {"do_rescale", true},
      {"rescale_factor", 1.0 / model.normalization.divisor},
      {"do_normalize", true},
      {"image_mean", model.normalization.mean},
      {"image_std", model.normalization.deviation}};
  return json.dump(2) + "\n";
}

}  // namespace snug::train
