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

data::ImageNormalization read_normalization(const io::JsonValue& file) {
  data::ImageNormalization normalization;
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

// Of transformers' processors, what changes values whatever the image's size.
constexpr const char* kOtherSteps[] = {"do_align_long_axis",
                                       "do_color_quantize",
                                       "do_flip_channel_order",
                                       "do_grayscale",
                                       "do_pad",
                                       "do_thumbnail",
                                       "include_top",
                                       "offset",
                                       "rescale_offset"};

/// `size` or `crop_size`, 32 or {"height": 32, "width": 32} or {"shortest_edge": 32}, is `side`.
bool is_side(const io::JsonValue& size, int64_t side) {
  if (!size.is_object()) return size.as_double() == static_cast<double>(side);
  for (const std::string& key : size.keys()) {
    const auto edge = size.find(key);
    if (edge && edge->as_double() != static_cast<double>(side)) return false;
  }
  return true;
}

// Who resizes by it enlarges images first and cuts off their edges, but at this size and above.
constexpr double kUncropped = 384;

}  // namespace

void read_image_processor(const std::string& folder, Model& model) {
  const std::string path = folder + "/" + kImageProcessorFile;
  model.image_processor = io::has_file(path) ? path : std::string();
  model.normalization = model.image_processor.empty() ? data::ImageNormalization()
                                                      : read_normalization(io::load_json(path));
}

std::string check_processing(const Model& model, bool trains) {
  if (model.image_processor.empty()) return {};
  const io::JsonValue file = io::load_json(model.image_processor);
  const int64_t side = model.traits.image_size;
  const std::string done = "it normalises images of " + std::to_string(side) + " x " +
                           std::to_string(side) + " pixels as they are";
  const auto refuse = [&](const io::JsonValue& field, const std::string& off) {
    field.fail("is " + field.dump() + ", which Snug does not do: " + done,
               "where the weights are for such images, set " + off +
                   " in the file; else prepare the images elsewhere");
  };
  for (const char* key : kOtherSteps) {
    const auto field = file.find(key);
    if (field && field->as_bool()) refuse(*field, std::string(key) + " to false");
  }
  std::string notice;
  const auto other_frame = [&](const std::string& key, const io::JsonValue& field,
                               const std::string& off) {
    if (!trains) refuse(field, off);
    if (notice.empty())
      notice = "images are trained on as they are: " + model.image_processor + " has " + key + " " +
               field.dump() + ", which Snug does not do; what is written says so";
  };
  const auto crop = file.find("crop_size");
  if (file.get_bool("do_center_crop", false) && crop && !is_side(*crop, side))
    other_frame("crop_size", *crop, "do_center_crop to false");
  if (!file.get_bool("do_resize", true)) return notice;
  const auto size = file.find("size");
  if (size && !is_side(*size, side)) other_frame("size", *size, "do_resize to false");
  const auto share = file.find("crop_pct");
  if (share && share->as_double() != 1 && static_cast<double>(side) < kUncropped)
    other_frame("crop_pct", *share, "crop_pct to 1");
  return notice;
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
