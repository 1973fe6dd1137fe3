// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG. What is decoded is bounded by what its header says that it takes, as the product
// bounds it by the budget; a small image is framed, too.
#include <span>
#include <string>

#include "data/image_decode.h"
#include "data/image_frame.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {

void read_image_files(std::string_view input) {
  constexpr int64_t kMostBytes = 8 << 20;
  const auto bytes = std::as_bytes(std::span(input));
  const data::ImageHeader header = data::read_image_header(bytes, "image");
  require(header.width > 0 && header.height > 0, "an image has pixels");
  require(header.width <= data::kMostImagePixels / header.height, "no image is a bomb");
  if (header.decoding_bytes() > kMostBytes) return;
  const data::RgbImage image = data::decode_image(bytes, header, "image");
  require(image.width == header.width && image.height == header.height,
          "an image has the size of its header");
  if (image.width * image.height > 4096) return;
  const data::ImageFrame frame{.resize = data::ImageFrame::Resize::exact,
                               .size = {5, 7},
                               .resample = data::Resample::bicubic,
                               .crop = {6, 3}};
  require(data::framed(image, frame).bytes.size() == 6 * 3 * 3, "a frame has one size");
}

}  // namespace snug::fuzz
