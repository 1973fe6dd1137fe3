// SPDX-License-Identifier: Apache-2.0
// Caches of images. Checksums are made right, so that what lies behind them is read.
#include <cstring>
#include <string>

#include "data/image_cache.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {
namespace {

uint64_t checksum_of(std::string_view bytes) {
  data::Checksum checksum;
  checksum.add(std::as_bytes(std::span(bytes)));
  return checksum.value();
}

/// The input as a file whose sizes fit where they can, and whose checksums do.
std::string with_checksums(std::string file) {
  data::ImageCacheHeader header;
  if (file.size() < sizeof header) return file;
  const data::ImageCacheHeader ours;
  std::memcpy(&header, file.data(), sizeof header);
  header.magic = ours.magic;
  header.version = ours.version;
  header.complete = ours.complete;
  header.width = header.width % 5 + 1;
  header.height = header.height % 5 + 1;
  header.rows %= 8;
  header.names_bytes %= 256;
  const size_t index = sizeof header + header.rows * header.width * header.height * 3;
  const size_t metadata = index + header.rows * sizeof(data::ImageRecord) + header.names_bytes;
  if (metadata <= file.size()) {
    header.metadata_bytes = file.size() - metadata;
    header.index_checksum = checksum_of(std::string_view(file).substr(index, metadata - index));
    header.metadata_checksum = checksum_of(std::string_view(file).substr(metadata));
  }
  header.header_checksum = checksum_of(std::string_view(
      reinterpret_cast<const char*>(&header), offsetof(data::ImageCacheHeader, header_checksum)));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace

void read_image_cache(std::string_view input) {
  const bool is_given = take_byte(input) % 4 == 0;
  const std::string file = is_given ? std::string(input) : with_checksums(std::string(input));
  const data::ImageCache cache(write_file("train.images", file));
  for (int64_t row = 0; row < cache.rows(); ++row) {
    const int32_t label = cache.label(row);
    require(label >= -1 && label < cache.facts().labels.size(), "a label is a class or none");
    require(cache.name(row).size() <= file.size(), "a name is a part of the file");
    int64_t bytes = 0;
    cache.read(row, [&](int64_t at, std::span<const std::byte> piece) {
      require(at == bytes, "pieces follow one another");
      bytes += static_cast<int64_t>(piece.size());
    });
    require(bytes == cache.size().width * cache.size().height * 3, "an image is whole");
  }
}

}  // namespace snug::fuzz
