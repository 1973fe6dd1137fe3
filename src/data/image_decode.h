// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG as red, green and blue, equal to Pillow's convert("RGB"): grey three times, a
// palette by its colours, transparency left out, 16 bits cut to the upper 8 (grey of 16 bits is
// held to 255), CMYK without a profile. An image's orientation (EXIF) is not looked at, and neither
// are colour profiles and gamma. What a file takes to be decoded is known from its header, before
// it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/resample.h"

namespace snug::data {

/// Pillow warns above as many: a file of some kilobytes may say more.
inline constexpr int64_t kMostImagePixels = 89'478'485;
inline constexpr int64_t kMostImageFileBytes = int64_t{64} << 20;

enum class ImageKind : uint8_t { png, jpeg };

struct ImageHeader {
  ImageKind kind = ImageKind::png;
  int64_t width = 0;
  int64_t height = 0;
  int64_t components = 3;  // of JPEG: 1, 3 or 4
  bool is_deep_grey = false;

  /// What decoding takes beside the file's own bytes, the result included.
  [[nodiscard]] int64_t decoding_bytes() const;
};

/// By the first bytes, whatever the file is called. Throws RowError at `where` for what is neither
/// PNG nor JPEG, is damaged, or has more pixels than kMostImagePixels.
[[nodiscard]] ImageHeader read_image_header(std::span<const std::byte> file,
                                            const std::string& where);

/// Throws RowError at `where` for a file that is damaged, ends early or is of a form that nobody
/// reads.
[[nodiscard]] RgbImage decode_image(std::span<const std::byte> file, const ImageHeader& header,
                                    const std::string& where);

}  // namespace snug::data
