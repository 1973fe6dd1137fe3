// SPDX-License-Identifier: Apache-2.0
// The part of image_cache.h that is a template.
#pragma once

#include <algorithm>
#include <array>

#include "data/cache_format.h"

namespace snug::data {

template <class Take>
void ImageCache::read(int64_t row, const Take& take) const {
  std::array<std::byte, kPieceBytes> piece;
  Checksum checksum;
  const int64_t begin = static_cast<int64_t>(sizeof(ImageCacheHeader)) + row * image_bytes();
  for (int64_t at = 0; at < image_bytes(); at += static_cast<int64_t>(kPieceBytes)) {
    const auto bytes = std::span(piece).first(
        static_cast<size_t>(std::min<int64_t>(kPieceBytes, image_bytes() - at)));
    read_at(begin + at, bytes);
    checksum.add(bytes);
    take(at, std::span<const std::byte>(bytes));
  }
  check_image(row, checksum.folded());
  note_read();
}

}  // namespace snug::data
