// SPDX-License-Identifier: Apache-2.0
#include "run_model/image_processor.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"

namespace snug::run_model {
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

// Steps of transformers' processors that change values whatever the image's size.
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

void refuse_other_steps(const io::JsonValue& file) {
  for (const char* key : kOtherSteps) {
    const auto field = file.find(key);
    if (!field || !field->as_bool()) continue;
    field->fail("is " + field->dump() +
                    ", which Snug does not do: images are resized, cut and "
                    "normalised",
                "where the weights are for such images, set " + std::string(key) +
                    " to false in the file; else prepare the images elsewhere");
  }
}

constexpr int64_t kMostSideOfImage = 1 << 14;

data::ImageSize read_size(const io::JsonValue& value) {
  if (!value.is_object()) {
    const int64_t side = value.as_int(1, kMostSideOfImage);
    return {side, side};
  }
  return {.width = value.at("width").as_int(1, kMostSideOfImage),
          .height = value.at("height").as_int(1, kMostSideOfImage)};
}

/// The class that wrote the file: "ConvNextFeatureExtractor".
std::string processor_of(const io::JsonValue& file) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    if (file.find(key)) return file.get_string(key);
  }
  return {};
}

bool begins_with_any(const std::string& name, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* each) { return name.starts_with(each); });
}

/// ConvNext's: below 384 images are resized to more, of which the middle is taken.
data::ImageFrame read_share_frame(const io::JsonValue& file, const std::string& processor) {
  const io::JsonValue share = file.at("crop_pct");
  if (!processor.empty() && !begins_with_any(processor, {"ConvNext", "ConvNeXT"}))
    share.fail("is " + share.dump() + ", whose meaning for " + processor + " Snug does not know",
               "write the same as size, do_center_crop and crop_size");
  const io::JsonValue size = file.at("size");
  const int64_t edge =
      (size.is_object() ? size.at("shortest_edge") : size).as_int(1, kMostSideOfImage);
  const double part = share.as_double();
  if (!(part > 0 && part <= 1)) share.fail("is no share of an image");
  if (static_cast<double>(edge) >= kUncropped)
    return {.resize = data::ImageFrame::Resize::exact, .size = {edge, edge}};
  return {.resize = data::ImageFrame::Resize::shortest_edge,
          .edge = static_cast<int64_t>(static_cast<double>(edge) / part),
          .crop = {edge, edge}};
}

data::ImageFrame read_resize(const io::JsonValue& file) {
  using Resize = data::ImageFrame::Resize;
  const std::string processor = processor_of(file);
  if (file.find("crop_pct")) return read_share_frame(file, processor);
  const io::JsonValue size = file.at("size");
  if (!size.is_object()) {
    if (begins_with_any(processor, {"ViT", "Beit", "BEiT", "DeiT"}))
      return {.resize = Resize::exact, .size = read_size(size)};
    size.fail("is " + size.dump() + ": of both sides, or of the shorter one?",
              "write {\"height\": " + size.dump() + ", \"width\": " + size.dump() +
                  "} or {\"shortest_edge\": " + size.dump() + "}");
  }
  if (size.find("longest_edge"))
    size.fail("has longest_edge, which Snug does not do",
              "write {\"height\": H, \"width\": W} or {\"shortest_edge\": N}");
  if (size.find("shortest_edge"))
    return {.resize = Resize::shortest_edge,
            .edge = size.at("shortest_edge").as_int(1, kMostSideOfImage)};
  return {.resize = Resize::exact, .size = read_size(size)};
}

data::ImageFrame read_frame(const io::JsonValue& file) {
  data::ImageFrame frame;
  if (file.get_bool("do_resize", true)) {
    frame = read_resize(file);
    frame.resample = static_cast<data::Resample>(file.at("resample").as_int(0, 5));
  }
  if (file.get_bool("do_center_crop", false)) frame.crop = read_size(file.at("crop_size"));
  return frame;
}

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
  refuse_other_steps(file);
  const auto refuse = [&](const io::JsonValue& field, const std::string& off) {
    field.fail("is " + field.dump() + ", and images of CIFAR's files are taken as they are, of " +
                   data::size_text({side, side}) + " pixels",
               "where the weights are for such images, set " + off +
                   " in the file; else give the images in a folder, as PNG or JPEG (docs/data.md)");
  };
  std::string notice;
  const auto other_frame = [&](const std::string& key, const io::JsonValue& field,
                               const std::string& off) {
    if (!trains) refuse(field, off);
    if (notice.empty())
      notice = "images of CIFAR's files are trained on as they are: " + model.image_processor +
               " has " + key + " " + field.dump() + "; what is written says so";
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

data::ImageFrame image_frame(const Model& model) {
  const int64_t side = model.traits.image_size;
  if (model.image_processor.empty())
    return {.resize = data::ImageFrame::Resize::exact, .size = {side, side}};
  const io::JsonValue file = io::load_json(model.image_processor);
  refuse_other_steps(file);
  const data::ImageFrame frame = read_frame(file);
  if (frame.resize == data::ImageFrame::Resize::none && !frame.crops()) return frame;
  const data::ImageSize result = frame.result();
  if (result == data::ImageSize{side, side}) return frame;
  if (result.width == 0)
    file.at("size").fail(
        "makes the shorter side the same for all images, and the other what it may",
        "set do_center_crop and crop_size, or give size a height and a width");
  throw Error(ErrorCode::bad_config, "image_size",
              model.image_processor + " makes images of " + data::size_text(result) + " pixels, '" +
                  model.name + "' reads " + data::size_text({side, side}),
              result.width == result.height
                  ? "set image_size to " + std::to_string(result.width) +
                        ", or change size (crop_size) in the file"
                  : "change size (crop_size) in the file: the model reads squares");
}

std::string image_processor_json(const Model& model) {
  using Resize = data::ImageFrame::Resize;
  const int64_t side = model.traits.image_size;
  const data::ImageFrame frame =
      model.frame.value_or(data::ImageFrame{.resize = Resize::exact, .size = {side, side}});
  const bool is_plain = frame.resize != Resize::shortest_edge && !frame.crops();
  nlohmann::ordered_json json = {
      {"image_processor_type", is_plain ? "ViTImageProcessor" : "CLIPImageProcessor"},
      {"do_resize", frame.resize != Resize::none}};
  if (frame.resize == Resize::exact)
    json["size"] = {{"height", frame.size.height}, {"width", frame.size.width}};
  if (frame.resize == Resize::shortest_edge) json["size"] = {{"shortest_edge", frame.edge}};
  json["resample"] = static_cast<int>(frame.resample);
  if (!is_plain) json["do_center_crop"] = frame.crops();
  if (frame.crops())
    json["crop_size"] = {{"height", frame.crop.height}, {"width", frame.crop.width}};
  json["do_rescale"] = true;
  json["rescale_factor"] = 1.0 / model.normalization.divisor;
  json["do_normalize"] = true;
  json["image_mean"] = model.normalization.mean;
  json["image_std"] = model.normalization.deviation;
  return json.dump(2) + "\n";
}

}  // namespace snug::run_model
