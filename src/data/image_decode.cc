// SPDX-License-Identifier: Apache-2.0
#include "data/image_decode.h"

#include "base/printable.h"
#include "data/image_codecs.h"
#include "data/source.h"

namespace snug::data {
namespace {

constexpr int64_t kDecoderBytes = int64_t{1} << 20;  // tables, windows, a few rows
constexpr int64_t kRowBytesOfPixel = 32;             // rows of 16 bits with transparency, twice

}  // namespace

int64_t ImageHeader::decoding_bytes() const {
  const int64_t pixels = width * height;
  // A JPEG of several scans is held as its coefficients, 16 bits each, in whole blocks.
  const int64_t blocks = ((width + 31) / 16 * 16) * ((height + 31) / 16 * 16);
  const int64_t held = kind == ImageKind::jpeg ? 2 * components * blocks : 0;
  const int64_t result = (components == 4 ? 7 : 3) * pixels;
  return kDecoderBytes + kRowBytesOfPixel * width + held + result;
}

void fail_image(const std::string& where, const std::string& what) {
  throw RowError(ErrorCode::bad_data, where, printable_name(what),
                 "replace or remove the file, or set bad_rows to skip");
}

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
  return header.kind == ImageKind::png ? decode_png(file, header, where)
                                       : decode_jpeg(file, header, where);
}

}  // namespace snug::data
