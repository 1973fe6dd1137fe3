// SPDX-License-Identifier: Apache-2.0
#include "data/image_header.h"

namespace snug::data {
namespace {

constexpr int64_t kDecoderBytes = int64_t{1} << 20;  // tables, windows, a few rows
constexpr int64_t kRowBytesOfPixel = 32;             // rows of 16 bits with transparency, twice

}  // namespace

int64_t ImageHeader::decoding_bytes() const {
  const int64_t pixels = width * height;
  // A JPEG of several scans is held as its coefficients, 16 bits each, in whole blocks.
  const int64_t blocks = ((width + 31) / 16 * 16) * ((height + 31) / 16 * 16);
  const int64_t held = kind == ImageFormat::jpeg ? 2 * components * blocks : 0;
  const int64_t result = (components == 4 ? 7 : 3) * pixels;
  return kDecoderBytes + kRowBytesOfPixel * width + held + result;
}

}  // namespace snug::data
