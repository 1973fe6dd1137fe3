// SPDX-License-Identifier: Apache-2.0
#include "data/image_decode.h"

#include "data/image_codecs.h"

namespace snug::data {
ImageHeader read_image_header(std::span<const std::byte> file, const std::string& where) {
  if (!is_png(file) && !is_jpeg(file))
    fail_image(where, file.empty() ? "the file is empty" : "the file is neither PNG nor JPEG");
  const ImageHeader header =
      is_png(file) ? read_png_header(file, where) : read_jpeg_header(file, where);
  if (header.width < 1 || header.height < 1) fail_image(where, "the image has no pixels");
  if (header.width > kMostImagePixels / header.height)
    fail_image(where, "the image has " + std::to_string(header.width) + " x " +
                          std::to_string(header.height) + " pixels, more than " +
                          std::to_string(kMostImagePixels) + " in all");
  return header;
}

RgbImage decode_image(std::span<const std::byte> file, const ImageHeader& header,
                      const std::string& where) {
  return header.kind == ImageFormat::png ? decode_png(file, header, where)
                                         : decode_jpeg(file, header, where);
}

}  // namespace snug::data
