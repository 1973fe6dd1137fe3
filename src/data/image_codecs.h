// SPDX-License-Identifier: Apache-2.0
// The two formats behind image_decode.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/image_header.h"
#include "data/resample.h"

namespace snug::data {

[[nodiscard]] bool is_png(std::span<const std::byte> file);
[[nodiscard]] ImageHeader read_png_header(std::span<const std::byte> file,
                                          const std::string& where);
[[nodiscard]] RgbImage decode_png(std::span<const std::byte> file, const ImageHeader& header,
                                  const std::string& where);

[[nodiscard]] bool is_jpeg(std::span<const std::byte> file);
[[nodiscard]] ImageHeader read_jpeg_header(std::span<const std::byte> file,
                                           const std::string& where);
[[nodiscard]] RgbImage decode_jpeg(std::span<const std::byte> file, const ImageHeader& header,
                                   const std::string& where);

/// Throws the RowError of a file that cannot be read: "the PNG is damaged: bad CRC".
[[noreturn]] void fail_image(const std::string& where, const std::string& what);

}  // namespace snug::data
