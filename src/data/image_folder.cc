// SPDX-License-Identifier: Apache-2.0
#include "data/image_folder.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/utf8.h"
#include "data/image_decode.h"
#include "data/image_tree.h"
#include "data/source.h"
#include "io/file.h"
#include "io/sha256.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr int64_t kTablesPerPixel = 64;  // of one side: windows and weights of resampling

/// What framing takes beside the image.
int64_t framing_bytes(const ImageHeader& header, const ImageFrame& frame, const ImageSize& size) {
  const ImageSize resized = frame.resized_to({header.width, header.height});
  return 3 * (resized.width * (header.height + resized.height) + size.width * size.height) +
         kTablesPerPixel * (header.width + header.height + resized.width + resized.height);
}

/// Images as the model reads them, one at a time.
class FramedImages {
 public:
  explicit FramedImages(const ImageFolderSpec& spec) : spec_(spec) {}

  [[nodiscard]] std::string path_of(const ImagePlace& place) const {
    return spec_.folder + "/" + place.name;
  }
  /// Throws RowError for a file that is no image of use, Error{out_of_budget}.
  [[nodiscard]] const std::string& bytes_of(const ImagePlace& place) {
    const std::string path = path_of(place);
    if (!spec_.has_classes && first_invalid_utf8(place.name))
      throw RowError(ErrorCode::bad_data, path,
                     "the name of the file is not UTF-8, and its prediction has it as text",
                     "rename it, or set bad_rows to skip");
    const int64_t bytes = io::bytes_of_file(path);
    if (bytes > kMostImageFileBytes)
      throw RowError(ErrorCode::bad_data, path,
                     "the file has " + std::to_string(bytes) + " bytes, more than " +
                         std::to_string(kMostImageFileBytes),
                     "save it smaller, or set bad_rows to skip");
    if (bytes > spec_.affordable_bytes)
      refuse_size(path, "the file has " + std::to_string(bytes) + " bytes");
    std::string().swap(file_);  // not beside the next one
    file_ = io::read_all(path, kMostImageFileBytes);
    return file_;
  }
  /// Decodes what bytes_of read.
  [[nodiscard]] RgbImage image_of(const ImagePlace& place) const {
    const std::string path = path_of(place);
    const auto bytes = std::as_bytes(std::span(file_));
    const ImageHeader header = read_image_header(bytes, path);
    check_size(header, path);
    return framed(decode_image(bytes, header, path), spec_.frame);
  }

 private:
  void check_size(const ImageHeader& header, const std::string& path) const {
    const ImageSize from{header.width, header.height};
    const ImageSize resized = spec_.frame.resized_to(from);
    const bool is_too_large = resized.width < 1 || resized.height < 1 ||
                              resized.width > kMostImagePixels / resized.height;
    if (is_too_large)
      throw RowError(
          ErrorCode::bad_data, path,
          "the image of " + size_text(from) + " pixels would be resized to " + size_text(resized),
          "cut it, or set bad_rows to skip");
    if (spec_.frame.result_of(from) != spec_.size)
      throw RowError(ErrorCode::bad_data, path,
                     "the image has " + size_text(from) + " pixels, the model reads " +
                         size_text(spec_.size) + ", and images are neither resized nor cut",
                     "set do_resize to true in preprocessor_config.json, or set bad_rows to skip");
    const int64_t needed = static_cast<int64_t>(file_.size()) + header.decoding_bytes() +
                           framing_bytes(header, spec_.frame, spec_.size);
    if (needed > spec_.affordable_bytes)
      refuse_size(path, size_text(from) + " pixels take " + std::to_string(needed) +
                            " bytes to be decoded");
  }
  [[noreturn]] void refuse_size(const std::string& path, const std::string& what) const {
    throw Error(ErrorCode::out_of_budget, path,
                what + ", and the budget lets " + std::to_string(spec_.affordable_bytes) +
                    " be taken for it",
                "raise memory, or save the image smaller");
  }

  const ImageFolderSpec& spec_;
  std::string file_;
};

std::vector<std::string> classes_of(const ImageFolderSpec& spec) {
  if (!spec.has_classes) return {};
  std::vector<std::string> classes = image_classes(spec.folder);
  // They are written into config.json.
  for (const std::string& name : classes) {
    if (first_invalid_utf8(name))
      throw Error(ErrorCode::bad_data, spec.folder + "/" + name,
                  "the folder is a class, and its name is not UTF-8", "rename it");
  }
  return classes;
}

/// What the images are made from, but for the images.
void begin_key(const ImageFolderSpec& spec, const std::vector<std::string>& classes,
               io::Sha256& key) {
  std::string text = "images 1;" + spec.frame.text() + ";" + size_text(spec.size) + ";" +
                     std::to_string(static_cast<int>(spec.bad_rows)) + ";" +
                     std::to_string(spec.rule.is_trained) + ";" + std::to_string(spec.rule.count) +
                     ";";
  for (const auto* names : {&classes, &spec.rule.model, &spec.rule.order}) {
    text += std::to_string(names->size()) + ";";
    for (const std::string& name : *names) text += std::to_string(name.size()) + ":" + name;
  }
  key.update(text.data(), static_cast<int64_t>(text.size()));
}

void add_to_key(const ImagePlace& place, const std::string& bytes, io::Sha256& key) {
  const std::string head =
      std::to_string(place.name.size()) + ":" + place.name + std::to_string(bytes.size()) + ":";
  key.update(head.data(), static_cast<int64_t>(head.size()));
  key.update(bytes.data(), static_cast<int64_t>(bytes.size()));
}

int64_t count_images(const ImageFolderSpec& spec, const std::vector<std::string>& classes) {
  return for_each_image(spec.folder, classes, [](const ImagePlace&) {}).images;
}

/// Ids of classes, by their places.
LabelMap map_classes(const ImageFolderSpec& spec, const std::vector<std::string>& classes,
                     IndexVector<int32_t>& ids) {
  if (classes.empty()) return {};
  const std::vector<std::string> ordered = in_default_order(classes);
  LabelMap map = map_labels(spec.rule, labels_of_text(Labels::from_names(ordered)), spec.folder);
  for (const std::string& name : classes) {
    const auto at = std::find(ordered.begin(), ordered.end(), name) - ordered.begin();
    ids.push_back(map.id_of[at]);
  }
  return map;
}

class ImageCacheBuilder {
 public:
  ImageCacheBuilder(const ImageFolderSpec& spec, const ImageHooks& hooks)
      : spec_(spec), hooks_(hooks), images_(spec), classes_(classes_of(spec)) {
    log_.policy = spec.bad_rows;
  }

  /// The key of the images as they are now. They are read, not decoded.
  [[nodiscard]] std::string key() {
    io::Sha256 key;
    begin_key(spec_, classes_, key);
    const int64_t total = count_images(spec_, classes_);
    int64_t done = 0;
    (void)for_each_image(spec_.folder, classes_, [&](const ImagePlace& place) {
      check_cancelled(hooks_.cancel, spec_.folder);
      try {
        add_to_key(place, images_.bytes_of(place), key);
      } catch (const RowError&) {
        // As where the cache is built: what cannot be read at all is no part of the key.
      }
      if (hooks_.comparing) hooks_.comparing(++done, total);
    });
    return key.finish();
  }

  void build(const std::string& path) {
    const int64_t total = count_images(spec_, classes_);
    io::require_free_disk(path, total * spec_.size.width * spec_.size.height * 3);
    IndexVector<int32_t> ids;
    LabelMap map = map_classes(spec_, classes_, ids);
    ImageFacts facts{.key = {},
                     .labels = std::move(map.labels),
                     .label_source = map.source,
                     .label_counts = {},
                     .bad = 0,
                     .bad_examples = {},
                     .others = 0};
    facts.label_counts.assign(facts.labels.size(), 0);
    ImageCacheWriter writer(path, spec_.size);
    io::Sha256 key;
    begin_key(spec_, classes_, key);
    int64_t done = 0;
    const ImageCount count = for_each_image(spec_.folder, classes_, [&](const ImagePlace& place) {
      check_cancelled(hooks_.cancel, spec_.folder);
      const int32_t label = place.class_index < 0 ? -1 : ids[place.class_index];
      if (add(place, label, key, writer) && label >= 0) ++facts.label_counts[label];
      if (hooks_.decoding) hooks_.decoding(++done, total);
    });
    facts.others = count.others;
    facts.bad = log_.count;
    facts.bad_examples = log_.examples;
    if (writer.rows() == 0) refuse_none(count);
    facts.key = key.finish();
    writer.finish(facts);
  }

 private:
  bool add(const ImagePlace& place, int32_t label, io::Sha256& key, ImageCacheWriter& writer) {
    try {
      add_to_key(place, images_.bytes_of(place), key);
      writer.add(images_.image_of(place), label, place.name);
      return true;
    } catch (const RowError& error) {
      log_.report(error);
      return false;
    }
  }

  [[noreturn]] void refuse_none(const ImageCount& count) const {
    if (count.images == 0)
      throw Error(ErrorCode::bad_data, spec_.folder, "there is no PNG or JPEG in it",
                  "give the folder that the images are in");
    throw Error(ErrorCode::bad_data, spec_.folder,
                "of " + std::to_string(count.images) + " images none can be read, such as " +
                    log_.examples.front());
  }

  const ImageFolderSpec& spec_;
  const ImageHooks& hooks_;
  FramedImages images_;
  std::vector<std::string> classes_;
  BadRowLog log_{};
};

/// The key of the cache; empty where there is none that can be read.
std::string key_of_cache(const std::string& path) {
  try {
    return ImageCache(path).facts().key;
  } catch (const Error& error) {
    // Missing, damaged or of other images: it is built. What stands in the way of that says so.
    if (error.code() != ErrorCode::io && error.code() != ErrorCode::bad_data) throw;
    return {};
  }
}

}  // namespace

std::unique_ptr<const ImageFolder> ImageFolder::open(const std::string& path,
                                                     const ImageFolderSpec& spec,
                                                     const ImageNormalization& normalization,
                                                     const ImageHooks& hooks) {
  ImageCacheBuilder builder(spec, hooks);
  const std::string key = key_of_cache(path);
  if (key.empty() || key != builder.key()) builder.build(path);
  return std::unique_ptr<const ImageFolder>(new ImageFolder(path, normalization));
}

ImageFolder::ImageFolder(const std::string& path, const ImageNormalization& normalization)
    : cache_(path) {
  for (size_t c = 0; c < values_.size(); ++c) {
    for (size_t byte = 0; byte < values_[c].size(); ++byte)
      values_[c][byte] = normalization.value(static_cast<uint8_t>(byte), c);
  }
}

void ImageFolder::read_columns(int64_t row, RowColumns& out) const {
  out.clear();
  if (const int32_t label = cache_.label(row); label >= 0) out.add_integers(1)[0] = label;
}

void ImageFolder::read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const {
  SNUG_CHECK(rows.size() == lengths.size(), "one length a row");
  std::fill(lengths.begin(), lengths.end(), 1);
}

void ImageFolder::fill(const MicroBatch& batch, const BatchBuffers& buffers) const {
  if (buffers.pixel_values.empty()) return;
  const auto values = static_cast<size_t>(cache_.size().width * cache_.size().height * 3);
  const auto size = static_cast<size_t>(batch.size);
  SNUG_CHECK(buffers.pixel_values.size() >= size * values, "a batch buffer is too small");
  for (size_t i = 0; i < size; ++i) {
    const size_t slot = static_cast<size_t>(batch.first_slot) + i;
    const std::span<float> image = buffers.pixel_values.subspan(i * values, values);
    if (slot >= batch.rows.size()) {
      std::fill(image.begin(), image.end(), 0.0F);
      continue;
    }
    cache_.read(batch.rows[slot], [&](int64_t at, std::span<const std::byte> bytes) {
      float* to = image.data() + at;
      for (size_t k = 0; k < bytes.size(); ++k)
        to[k] = values_[k % 3][static_cast<size_t>(bytes[k])];
    });
  }
}

void for_each_bad_image(const ImageFolderSpec& spec,
                        const std::function<void(int64_t number, const std::string& name,
                                                 const std::string& what)>& take) {
  FramedImages images(spec);
  int64_t number = 0;
  (void)for_each_image(spec.folder, classes_of(spec), [&](const ImagePlace& place) {
    try {
      (void)images.bytes_of(place);
      (void)images.image_of(place);
    } catch (const RowError& error) {
      BadRowLog log{.policy = BadRows::skip};
      log.on_skip = [&](const std::string& what) { take(number, place.name, what); };
      log.report(error);
    }
    ++number;
  });
}

}  // namespace snug::data
