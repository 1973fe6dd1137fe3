// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo, with the slow transform and smooth chroma that are libjpeg's own defaults.
#include <turbojpeg.h>

#include <memory>
#include <new>
#include <string_view>

#include "data/image_codecs.h"

namespace snug::data {
namespace {

using Decompressor = std::unique_ptr<void, int (*)(tjhandle)>;

constexpr int kMarkerBytes = 2;

int byte_at(std::span<const std::byte> file, size_t at) {
  return at < file.size() ? static_cast<int>(file[at]) : -1;
}

int word_at_of(std::span<const std::byte> file, size_t at) {
  return byte_at(file, at) << 8 | byte_at(file, at + 1);
}

/// Whether a marker begins a frame, behind which the size stands.
bool begins_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(int marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

/// Where the frame's marker is; past the end where there is none.
size_t find_frame(std::span<const std::byte> file) {
  size_t at = kMarkerBytes;
  while (at + 9 < file.size()) {
    if (byte_at(file, at) != 0xFF) {
      ++at;  // as libjpeg does with bytes that belong to nothing
      continue;
    }
    const int marker = byte_at(file, at + 1);
    if (begins_frame(marker)) return at;
    if (marker == 0xFF || marker == 0) {
      ++at;
    } else if (stands_alone(marker)) {
      at += kMarkerBytes;
    } else if (marker == 0xD9 || marker == 0xDA) {
      break;
    } else {
      at += kMarkerBytes + static_cast<size_t>(word_at_of(file, at + kMarkerBytes));
    }
  }
  return file.size();
}

/// Pillow's: CMYK of JPEG is stored as its inverse.
void write_rgb_of_cmyk(const uint8_t* from, int64_t pixels, uint8_t* to) {
  for (int64_t i = 0; i < pixels; ++i, from += 4) {
    const int white = from[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - from[c]) * white + 128;
      const int ink = ((product >> 8) + product) >> 8;
      *to++ = static_cast<uint8_t>(white > ink ? white - ink : 0);
    }
  }
}

}  // namespace

bool is_jpeg(std::span<const std::byte> file) {
  return byte_at(file, 0) == 0xFF && byte_at(file, 1) == 0xD8 && byte_at(file, 2) == 0xFF;
}

ImageHeader read_jpeg_header(std::span<const std::byte> file, const std::string& where) {
  const size_t frame = find_frame(file);
  if (frame >= file.size()) fail_image(where, "the JPEG is damaged: it has no header");
  const ImageHeader header{.kind = ImageFormat::jpeg,
                           .width = word_at_of(file, frame + 7),
                           .height = word_at_of(file, frame + 5),
                           .components = byte_at(file, frame + 9),
                           .is_deep_grey = false};
  if (byte_at(file, frame + 4) != 8)
    fail_image(where, "the JPEG has " + std::to_string(byte_at(file, frame + 4)) +
                          " bits a value; 8 are read");
  if (header.components != 1 && header.components != 3 && header.components != 4)
    fail_image(where, "the JPEG has " + std::to_string(header.components) +
                          " colours; grey, three and four (CMYK) are read");
  return header;
}

RgbImage decode_jpeg(std::span<const std::byte> file, const ImageHeader& header,
                     const std::string& where) {
  const Decompressor decompressor(tjInitDecompress(), &tjDestroy);
  if (decompressor == nullptr) throw std::bad_alloc();
  const bool is_cmyk = header.components == 4;
  RgbImage image = blank_image(header.width, header.height);
  std::vector<uint8_t> inks;
  if (is_cmyk) inks.resize(static_cast<size_t>(header.width * header.height * 4));
  const int status = tjDecompress2(
      decompressor.get(), reinterpret_cast<const unsigned char*>(file.data()), file.size(),
      is_cmyk ? inks.data() : image.bytes.data(), static_cast<int>(header.width), 0,
      static_cast<int>(header.height), is_cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS);
  if (status != 0) {
    const std::string_view said = tjGetErrorStr2(decompressor.get());
    // Bytes between two segments belong to nothing, and no pixel is other for them.
    const bool is_harmless = tjGetErrorCode(decompressor.get()) == TJERR_WARNING &&
                             said.find("extraneous bytes") != std::string_view::npos;
    if (!is_harmless) fail_image(where, "the JPEG is damaged: " + std::string(said));
  }
  if (is_cmyk) write_rgb_of_cmyk(inks.data(), header.width * header.height, image.bytes.data());
  return image;
}

}  // namespace snug::data
