// SPDX-License-Identifier: Apache-2.0
// What the header of an image's file says, and the most that is read of one.
#pragma once

#include <cstdint>

namespace snug::data {

/// Pillow warns above as many: a file of some kilobytes may say more.
inline constexpr int64_t kMostImagePixels = 89'478'485;
inline constexpr int64_t kMostImageFileBytes = int64_t{64} << 20;

enum class ImageFormat : uint8_t { png, jpeg };

struct ImageHeader {
  ImageFormat kind = ImageFormat::png;
  int64_t width = 0;
  int64_t height = 0;
  int64_t components = 3;  // of JPEG: 1, 3 or 4
  bool is_deep_grey = false;

  /// What decoding takes beside the file's own bytes, the result included.
  [[nodiscard]] int64_t decoding_bytes() const;
};

}  // namespace snug::data
