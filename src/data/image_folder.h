// SPDX-License-Identifier: Apache-2.0
// Images in folders as rows: PNG and JPEG files, decoded (image_decode.h) and framed
// (image_frame.h) once into a cache on disk (image_cache.h), from which they are read. Memory does
// not grow with their number: it holds one image while the cache is built, which the caller bounds,
// and none after that.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "data/image_cache.h"
#include "data/image_file.h"
#include "data/row_reader.h"
#include "data/row_store.h"

namespace snug::data {

struct ImageFolderSpec {
  std::string folder;
  ImageFrame frame;
  ImageSize size;           // that every framed image must have
  bool has_classes = true;  // false: all images below the folder, without labels
  LabelRule rule{};
  BadRows bad_rows = BadRows::stop;
  int64_t affordable_bytes = int64_t{1} << 40;  // of one image's decoding; more is out_of_budget
};

struct ImageHooks {
  std::function<void(int64_t done, int64_t total)> comparing{};  // images with those of a cache
  std::function<void(int64_t done, int64_t total)> decoding{};
  const std::atomic<bool>* cancel = nullptr;
};

class ImageFolder final : public RowStore {
 public:
  /// Opens the cache at `path`, or builds it where there is none or its images are others. Throws
  /// what reading, decoding and map_labels throw, Error{out_of_budget}, Error{bad_data} where no
  /// image is left, Error{cancelled}.
  [[nodiscard]] static std::unique_ptr<const ImageFolder> open(
      const std::string& path, const ImageFolderSpec& spec,
      const ImageNormalization& normalization = {}, const ImageHooks& hooks = {});

  [[nodiscard]] int64_t rows() const override { return cache_.rows(); }
  [[nodiscard]] const Labels& labels() const override { return cache_.facts().labels; }
  [[nodiscard]] uint64_t content_hash() const override { return cache_.content_hash(); }
  [[nodiscard]] int64_t most_values() const override { return 1; }
  /// one_label()'s, where the images have classes.
  void read_columns(int64_t row, RowColumns& out) const override;
  void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const override;
  /// pixel_values are normalised; padding rows are zeros.
  void fill(const MicroBatch& batch, const BatchBuffers& buffers) const override;
  [[nodiscard]] std::string name(int64_t row) const override { return cache_.name(row); }

  [[nodiscard]] const ImageFacts& facts() const { return cache_.facts(); }
  [[nodiscard]] ImageSize size() const { return cache_.size(); }

 private:
  ImageFolder(const std::string& path, const ImageNormalization& normalization);

  ImageCache cache_;
  std::array<std::array<float, 256>, 3> values_;  // by channel and byte
};

/// Hears of each image that cannot be read: its number among all, from 0, its path below the
/// folder, and "file: why".
void for_each_bad_image(const ImageFolderSpec& spec,
                        const std::function<void(int64_t number, const std::string& name,
                                                 const std::string& what)>& take);

}  // namespace snug::data
