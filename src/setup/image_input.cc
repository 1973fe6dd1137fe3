// SPDX-License-Identifier: Apache-2.0
// Rows of images: CIFAR's binary files, normalised as the model's folder says.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "data/image_file.h"
#include "io/file.h"
#include "setup/data_notices.h"
#include "setup/image_processor.h"
#include "setup/input.h"
#include "setup/label_warnings.h"
#include "snug/error.h"

namespace snug::train {
namespace {

using Json = nlohmann::ordered_json;

/// Labelled as `rule` says. Throws Error{bad_config} where the model reads others.
std::unique_ptr<const data::ImageFile> open_images(const Model& model, const std::string& path,
                                                   const data::LabelRule& rule) {
  if (!io::is_folder(path) && !path.ends_with(".bin")) {
    throw Error(ErrorCode::bad_config, path,
                "'" + model.name + "' reads images, and this is neither a folder nor a .bin file",
                "give CIFAR-10 or CIFAR-100 in their binary version: a folder or a .bin file");
  }
  if (model.traits.image_size != data::kCifarSide ||
      model.traits.image_channels != data::kCifarChannels) {
    throw Error(ErrorCode::bad_config, "image_size",
                "the images of " + path + " have 32 x 32 pixels of 3 channels, '" + model.name +
                    "' reads " + std::to_string(model.traits.image_size) + " x " +
                    std::to_string(model.traits.image_size) + " of " +
                    std::to_string(model.traits.image_channels),
                "set image_size to 32, or choose one of the models for CIFAR");
  }
  return std::make_unique<const data::ImageFile>(path, rule, model.normalization);
}

Json images_json(const std::string& file, const data::ImageFile& images) {
  Json json = {{"file", file},
               {"rows", images.rows()},
               {"image", {data::kCifarSide, data::kCifarSide, data::kCifarChannels}}};
  json["labels"] = Json::object();
  const std::vector<std::string> names = data::told_apart(images.labels().names());
  for (size_t i = 0; i < images.label_counts().size(); ++i)
    json["labels"][names[i]] = images.label_counts()[i];
  return json;
}

std::string images_text(const Json& json) {
  return fmt::format("data {}\n  {} images of {} pixels and channels\n",
                     json["file"].get<std::string>(), json["rows"].get<int64_t>(),
                     json["image"].dump()) +
         labels_text(json["labels"]);
}

class ImageInput final : public Input {
 public:
  [[nodiscard]] std::string reads() const override { return "reads images"; }
  [[nodiscard]] std::span<const char* const> foreign_keys() const override {
    static constexpr const char* kKeys[] = {"tokenizer",     "tokenizer_kind", "vocab_size",
                                            "text_column",   "delimiter",      "text_pair_column",
                                            "label_column",  "max_seq_length", "group_by_length",
                                            "weight_column", "overlong",       "stride"};
    return kKeys;
  }
  void read_folder(const std::string& folder, Model& model) const override {
    read_image_processor(folder, model);
  }
  [[nodiscard]] std::vector<std::string> notices(const Model& model) const override;
  void write_folder(const Model& model, const Tokenizer*, bool,
                    io::AtomicFolder& target) const override {
    target.write(kImageProcessorFile, image_processor_json(model));
  }
  [[nodiscard]] bool has_lengths() const override { return false; }
  [[nodiscard]] std::string row(const Model& model) const override {
    return fmt::format("image of {0} x {0} pixels", model.traits.image_size);
  }
  [[nodiscard]] int64_t longest(const RunConfig&, const Model& model) const override {
    return model.traits.image_size;
  }
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_tokenizer_alone(
      const RunConfig&, const RunOptions&, const Model&, const std::string&) const override {
    return nullptr;
  }
  void open_training(const RunConfig& config, const RunOptions& options, const Model& model,
                     const std::string& tokenizer_folder, const WorkFolder& work,
                     RunData& run) const override;
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_trained(RunConfig&, const RunOptions& options,
                                                              const Model& model) const override {
    say(options, notices(model));
    return nullptr;
  }
  [[nodiscard]] TrainedRows open_rows(const RunConfig& config, const RunOptions& options,
                                      const Model& model, const Tokenizer* tokenizer,
                                      const std::string& file, data::LabelUse use,
                                      const std::string& cache_path) const override;
  [[nodiscard]] Inspection inspect(const InspectRequest& request) const override;
};

// Where the folder says otherwise than CIFAR-10.
std::vector<std::string> ImageInput::notices(const Model& model) const {
  if (model.normalization == data::ImageNormalization{}) return {};
  const data::ImageNormalization& n = model.normalization;
  return {fmt::format("images are normalised as {}/{} says: (byte / {:.6g} - {:.4g}) / {:.4g}",
                      model.name, kImageProcessorFile, n.divisor, fmt::join(n.mean, ", "),
                      fmt::join(n.deviation, ", "))};
}

void ImageInput::open_training(const RunConfig& config, const RunOptions& options,
                               const Model& model, const std::string&, const WorkFolder&,
                               RunData& run) const {
  auto train = open_images(model, config.train_file, model.label_rule);
  if (const std::string notice = check_processing(model, true); !notice.empty())
    say(options, notice);
  run.labels = train->labels();
  run.label_source = train->label_source();
  run.label_counts = train->label_counts();
  say(options, label_notice(config.train_file, run.labels, run.label_source));
  warn(options, label_warnings(config.train_file, run.labels, run.label_counts));
  run.train = std::move(train);
  run.buckets = {static_cast<int32_t>(model.traits.image_size)};
  if (config.validation_file.empty()) return;
  run.validation =
      open_images(model, config.validation_file, {.model = run.labels.names(), .is_trained = true});
}

// Labels are not read in a prediction, but these files hold them.
TrainedRows ImageInput::open_rows(const RunConfig&, const RunOptions&, const Model& model,
                                  const Tokenizer*, const std::string& file, data::LabelUse use,
                                  const std::string&) const {
  (void)check_processing(model, false);
  const data::LabelRule rule = use == data::LabelUse::known ? model.label_rule : data::LabelRule{};
  return {.rows = open_images(model, file, rule),
          .buckets = {static_cast<int32_t>(model.traits.image_size)},
          .skipped = 0};
}

Inspection ImageInput::inspect(const InspectRequest& request) const {
  Inspection found;
  for (const std::string& file : request.files) {
    const auto images = open_images(*request.model, file, request.model->label_rule);
    if (found.labels.size() == 0) found.labels = images->labels();
    found.files.push_back(images_json(file, *images));
    found.text += images_text(found.files.back());
  }
  return found;
}

}  // namespace

const Input& image_input() {
  static const ImageInput input;
  return input;
}

}  // namespace snug::train
