// SPDX-License-Identifier: Apache-2.0
// A file of images of one size with their labels and names: written once, front to back, read image
// by image. As with token caches (token_cache.h) nothing is mapped and nothing in a file is
// trusted: header, index and metadata are checked when it is opened, an image each time it is read.
//
//   Header | pixels of every image, (height, width, 3) bytes | one ImageRecord an image | names,
//   end to end | metadata (JSON)
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/index_vector.h"
#include "data/image_frame.h"
#include "data/label_map.h"
#include "io/buffered_file.h"

namespace snug::data {

struct ImageRecord {
  uint64_t name_end = 0;  // among the names; it begins where the one before ends
  int32_t label = -1;     // -1: none
  uint32_t checksum = 0;  // of the pixels
};
static_assert(sizeof(ImageRecord) == 16);

struct ImageCacheHeader {
  uint64_t magic = 0x31'47'4D'49'47'55'4E'53;  // "SNUGIMG1"
  uint32_t version = 1;
  uint32_t complete = 0x45'4E'4F'44;  // "DONE"
  uint64_t rows = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  uint64_t names_bytes = 0;
  uint64_t metadata_bytes = 0;
  uint64_t index_checksum = 0;  // of records and names
  uint64_t metadata_checksum = 0;
  uint64_t header_checksum = 0;  // of all before it
};
static_assert(sizeof(ImageCacheHeader) == 72);

/// What is known of the images together.
struct ImageFacts {
  std::string key;  // what they were made from
  Labels labels;
  LabelSource label_source = LabelSource::data;
  IndexVector<int64_t> label_counts;
  int64_t bad = 0;                        // images that cannot be read
  std::vector<std::string> bad_examples;  // the first few
  int64_t others = 0;                     // files that are no images
};

class ImageCacheWriter {
 public:
  ImageCacheWriter(const std::string& path, const ImageSize& size);
  /// Throws Error{io}.
  void add(const RgbImage& image, int32_t label, const std::string& name);
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// Puts the file in its place.
  void finish(const ImageFacts& facts);

 private:
  io::TemporaryFile temporary_;
  ImageSize size_;
  io::BufferedFile file_;
  io::BufferedFile records_;
  io::BufferedFile names_;
  int64_t rows_ = 0;
};

/// Const methods are thread-safe; reading allocates nothing but names.
class ImageCache {
 public:
  /// Throws Error{io}, and Error{bad_data} for a file that is incomplete, damaged or hostile.
  explicit ImageCache(const std::string& path);

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(header_.rows); }
  [[nodiscard]] ImageSize size() const { return {header_.width, header_.height}; }
  [[nodiscard]] const ImageFacts& facts() const { return facts_; }
  /// Changes with any pixel, label, name or order.
  [[nodiscard]] uint64_t content_hash() const { return content_hash_; }
  [[nodiscard]] int32_t label(int64_t row) const { return record(row).label; }
  [[nodiscard]] std::string name(int64_t row) const;

  /// Calls take(first byte's place, bytes) for the pixels in pieces, in order. Throws
  /// Error{bad_data} where they are not those that were written.
  template <class Take>
  void read(int64_t row, const Take& take) const;

 private:
  static constexpr size_t kPieceBytes = 12288;  // a multiple of 8, and of whole pixels

  void check_header();
  void check_index();
  void read_facts();
  [[nodiscard]] ImageRecord record(int64_t row) const;
  [[nodiscard]] int64_t image_bytes() const {
    return int64_t{header_.width} * int64_t{header_.height} * 3;
  }
  void read_at(int64_t offset, std::span<std::byte> bytes) const;
  void check_image(int64_t row, uint32_t checksum) const;
  void note_read() const;

  std::string path_;
  io::File file_;
  ImageCacheHeader header_;
  int64_t index_offset_ = 0;
  ImageFacts facts_;
  uint64_t content_hash_ = 0;
  mutable std::atomic<int64_t> touched_bytes_{0};
};

}  // namespace snug::data

#include "data/image_cache-inl.h"
