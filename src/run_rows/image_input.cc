// SPDX-License-Identifier: Apache-2.0
// Rows of images: CIFAR's binary files as they are, PNG and JPEG in folders framed and normalised
// as the model's folder says.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/image_file.h"
#include "data/image_folder.h"
#include "data/image_tree.h"
#include "io/file.h"
#include "notices/data_notices.h"
#include "notices/label_warnings.h"
#include "run_memory/process_memory.h"
#include "run_model/image_processor.h"
#include "run_model/row_kind.h"
#include "run_rows/input.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug::run_rows {

using text::Tokenizer;

namespace {

using Json = nlohmann::ordered_json;

/// One file or folder of images.
struct OpenedImages {
  std::unique_ptr<const data::RowStore> rows;
  data::LabelSource label_source = data::LabelSource::data;
  std::vector<int64_t> label_counts{};
  std::optional<data::ImageFrame> frame{};  // of images in folders
  data::ImageSize size{};
  int64_t bad = 0;
  std::vector<std::string> bad_examples{};
  int64_t others = 0;
};

struct ImageRequest {
  const RunConfig& config;
  const RunOptions& options;
  const run_model::Model& model;
  const std::string& path;
  data::LabelUse use = data::LabelUse::find;
  data::LabelRule rule{};
  std::string cache_path{};
};

void refuse_other_sizes(const run_model::Model& model, const std::string& path) {
  if (model.traits.image_size == data::kCifarSide) return;
  throw Error(ErrorCode::bad_config, "image_size",
              "the images of " + path + " have 32 x 32 pixels of 3 channels, '" + model.name +
                  "' reads " + std::to_string(model.traits.image_size) + " x " +
                  std::to_string(model.traits.image_size) + " of " +
                  std::to_string(model.traits.image_channels),
              "set image_size to 32, or choose one of the models for CIFAR");
}

OpenedImages open_cifar(const ImageRequest& request) {
  refuse_other_sizes(request.model, request.path);
  auto images = std::make_unique<const data::ImageFile>(request.path, request.rule,
                                                        request.model.normalization);
  OpenedImages opened{.rows = nullptr,
                      .label_source = images->label_source(),
                      .label_counts = images->label_counts(),
                      .size = {data::kCifarSide, data::kCifarSide}};
  opened.rows = std::move(images);
  return opened;
}

data::ImageFolderSpec folder_spec(const ImageRequest& request) {
  const RunConfig& config = request.config;
  const int64_t side = request.model.traits.image_size;
  data::ImageFolderSpec spec{.folder = request.path,
                             .frame = run_model::image_frame(request.model),
                             .size = {side, side},
                             .has_classes = request.use != data::LabelUse::ignore,
                             .rule = request.rule,
                             .bad_rows = config.bad_rows};
  if (request.options.budgets_whole_process)
    spec.affordable_bytes = run_memory::affordable_image_bytes(resolve_memory(config.memory));
  return spec;
}

data::ImageHooks hooks_of(const ImageRequest& request) {
  const RunOptions& options = request.options;
  const std::string folder = io::parent_folder(request.cache_path);
  const bool is_in_memory = io::lies_in_memory(folder);
  const auto tell = [&options, path = request.path](const char* what) {
    return [&options, stage = what + path](int64_t done, int64_t total) {
      if (options.callbacks.on_progress) options.callbacks.on_progress({stage, done, total});
    };
  };
  data::ImageHooks hooks{.comparing = tell("comparing "), .decoding = {}, .cancel = options.cancel};
  hooks.decoding = [=, decoding = tell("decoding ")](int64_t done, int64_t total) {
    if (is_in_memory) require_memory_for_files(folder);
    decoding(done, total);
  };
  return hooks;
}

void tell_of_folder(const ImageRequest& request, const OpenedImages& opened) {
  const std::string by = request.model.image_processor.empty()
                             ? "there is no " + std::string(run_model::kImageProcessorFile)
                             : request.model.image_processor;
  notices::say(request.options,
               "images of " + request.path + ": " + opened.frame->text() + " (" + by + ")");
  if (opened.others > 0)
    notices::say(request.options, std::to_string(opened.others) + " files in " + request.path +
                                      " are no images of a class and are passed over");
  if (opened.bad == 0) return;
  const int64_t all = opened.rows->rows() + opened.bad;
  notices::warn(
      request.options,
      Warning{.code = "bad_rows",
              .text = std::to_string(opened.bad) + " of " + std::to_string(all) + " images of " +
                      request.path + " cannot be read and " +
                      (request.use == data::LabelUse::ignore ? "have null in place of a prediction"
                                                             : "are left out") +
                      " (bad_rows: skip), such as " + opened.bad_examples.front(),
              .count = opened.bad,
              .share = static_cast<double>(opened.bad) / static_cast<double>(all)});
}

OpenedImages open_folder(const ImageRequest& request) {
  const data::ImageFolderSpec spec = folder_spec(request);
  auto images = data::ImageFolder::open(request.cache_path + ".images", spec,
                                        request.model.normalization, hooks_of(request));
  const data::ImageFacts& facts = images->facts();
  OpenedImages opened{.rows = nullptr,
                      .label_source = facts.label_source,
                      .label_counts = facts.label_counts,
                      .frame = spec.frame,
                      .size = images->size(),
                      .bad = facts.bad,
                      .bad_examples = facts.bad_examples,
                      .others = facts.others};
  opened.rows = std::move(images);
  tell_of_folder(request, opened);
  return opened;
}

/// Labelled as the rule says. Throws Error{bad_config} where the model reads others.
OpenedImages open_images(const ImageRequest& request) {
  const bool is_folder = io::is_folder(request.path);
  if (!is_folder && !request.path.ends_with(".bin")) {
    throw Error(
        ErrorCode::bad_config, request.path,
        "'" + request.model.name + "' reads images, and this is neither a folder nor a .bin file",
        "give a folder of PNG and JPEG files with a folder for each class, or CIFAR-10 or "
        "CIFAR-100 in their binary version: a folder or a .bin file (docs/data.md)");
  }
  if (request.model.traits.image_channels != data::kCifarChannels)
    throw Error(ErrorCode::bad_config, request.path,
                "images have 3 channels, '" + request.model.name + "' reads " +
                    std::to_string(request.model.traits.image_channels),
                "choose a model of 3 channels");
  if (is_folder && !data::holds_cifar(request.path)) return open_folder(request);
  return open_cifar(request);
}

Json images_json(const std::string& file, const OpenedImages& images) {
  Json json = {{"file", file},
               {"rows", images.rows->rows()},
               {"image", {images.size.height, images.size.width, data::kCifarChannels}}};
  if (images.frame) {
    json["frame"] = images.frame->text();
    json["bad"] = images.bad;
    json["bad_examples"] = images.bad_examples;
    json["other_files"] = images.others;
  }
  json["labels"] = Json::object();
  const std::vector<std::string> names = data::told_apart(images.rows->labels().names());
  for (size_t i = 0; i < images.label_counts.size(); ++i)
    json["labels"][names[i]] = images.label_counts[i];
  return json;
}

std::string images_text(const Json& json) {
  std::string text =
      fmt::format("data {}\n  {} images of {} pixels and channels", json["file"].get<std::string>(),
                  json["rows"].get<int64_t>(), json["image"].dump());
  if (json.contains("frame"))
    text += fmt::format(" ({}), {} bad, {} other files", json["frame"].get<std::string>(),
                        json["bad"].get<int64_t>(), json["other_files"].get<int64_t>());
  return text + "\n" + labels_text(json["labels"]);
}

class ImageInput final : public Input {
 public:
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_tokenizer_alone(
      const RunConfig&, const RunOptions&, const run_model::Model&,
      const std::string&) const override {
    return nullptr;
  }
  void open_training(const RunConfig& config, const RunOptions& options,
                     const run_model::Model& model, const std::string& tokenizer_folder,
                     const WorkFolder& work, RunData& run) const override;
  [[nodiscard]] std::unique_ptr<const Tokenizer> open_trained(
      RunConfig&, const RunOptions& options, const run_model::Model& model) const override {
    notices::say(options, run_model::row_kind_of(model).notices(model));
    return nullptr;
  }
  [[nodiscard]] TrainedRows open_rows(const RunConfig& config, const RunOptions& options,
                                      const run_model::Model& model, const Tokenizer* tokenizer,
                                      const std::string& file, data::LabelUse use,
                                      const std::string& cache_path) const override;
  [[nodiscard]] Inspection inspect(const InspectRequest& request) const override;
};

void ImageInput::open_training(const RunConfig& config, const RunOptions& options,
                               const run_model::Model& model, const std::string&,
                               const WorkFolder& work, RunData& run) const {
  OpenedImages train = open_images({.config = config,
                                    .options = options,
                                    .model = model,
                                    .path = config.train_file,
                                    .use = data::LabelUse::find,
                                    .rule = model.label_rule,
                                    .cache_path = work.path() + "/train"});
  run.labels = train.rows->labels();
  run.label_source = train.label_source;
  run.label_counts = train.label_counts;
  run.frame = train.frame;
  if (!train.frame) notices::say(options, run_model::check_processing(model, true));
  notices::say(options, notices::label_notice(config.train_file, run.labels, run.label_source));
  notices::warn(options, notices::label_warnings(config.train_file, run.labels, run.label_counts));
  run.train = std::move(train.rows);
  run.buckets = {static_cast<int32_t>(model.traits.image_size)};
  if (config.validation_file.empty()) return;
  OpenedImages validation = open_images({.config = config,
                                         .options = options,
                                         .model = model,
                                         .path = config.validation_file,
                                         .use = data::LabelUse::known,
                                         .rule = {.model = run.labels.names(), .is_trained = true},
                                         .cache_path = work.path() + "/validation"});
  run.validation = std::move(validation.rows);
}

// Labels are not read in a prediction, but CIFAR's files hold them.
TrainedRows ImageInput::open_rows(const RunConfig& config, const RunOptions& options,
                                  const run_model::Model& model, const Tokenizer*,
                                  const std::string& file, data::LabelUse use,
                                  const std::string& cache_path) const {
  const bool is_labelled = use == data::LabelUse::known;
  const ImageRequest request{.config = config,
                             .options = options,
                             .model = model,
                             .path = file,
                             .use = use,
                             .rule = is_labelled ? model.label_rule : data::LabelRule{},
                             .cache_path = cache_path};
  OpenedImages images = open_images(request);
  if (!images.frame) (void)run_model::check_processing(model, false);
  TrainedRows trained{.rows = std::move(images.rows),
                      .buckets = {static_cast<int32_t>(model.traits.image_size)},
                      .skipped = {}};
  if (images.bad > 0 && !is_labelled) {
    const data::ImageFolderSpec spec = folder_spec(request);
    trained.skipped.emplace(cache_path + ".skipped", [&](const SkippedRows::Add& add) {
      data::for_each_bad_image(
          spec, [&](int64_t number, const std::string& name, const std::string& what) {
            add({.number = number, .file = name, .reason = what});
          });
    });
  }
  return trained;
}

Inspection ImageInput::inspect(const InspectRequest& request) const {
  Inspection found;
  for (const std::string& file : request.files) {
    const OpenedImages images = open_images({.config = request.config,
                                             .options = request.options,
                                             .model = *request.model,
                                             .path = file,
                                             .use = data::LabelUse::find,
                                             .rule = request.model->label_rule,
                                             .cache_path = request.folder + "/inspect"});
    if (found.labels.size() == 0) found.labels = images.rows->labels();
    found.files.push_back(images_json(file, images));
    found.text += images_text(found.files.back());
  }
  return found;
}

}  // namespace

const Input& image_input() {
  static const ImageInput input;
  return input;
}

}  // namespace snug::run_rows
