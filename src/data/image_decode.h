// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG as red, green and blue, equal to Pillow's convert("RGB"): grey three times, a
// palette by its colours, transparency left out, 16 bits cut to the upper 8 (grey of 16 bits is
// held to 255), CMYK without a profile. An image's orientation (EXIF) is not looked at, and neither
// are colour profiles and gamma. What a file takes to be decoded is known from its header, before
// it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/image_header.h"
#include "data/resample.h"

namespace snug::data {

/// By the first bytes, whatever the file is called. Throws RowError at `where` for what is neither
/// PNG nor JPEG, is damaged, or has more pixels than kMostImagePixels.
[[nodiscard]] ImageHeader read_image_header(std::span<const std::byte> file,
                                            const std::string& where);

/// Throws RowError at `where` for a file that is damaged, ends early or is of a form that nobody
/// reads.
[[nodiscard]] RgbImage decode_image(std::span<const std::byte> file, const ImageHeader& header,
                                    const std::string& where);

}  // namespace snug::data
