// SPDX-License-Identifier: Apache-2.0
// PNG by libpng, whose errors leave its functions by longjmp: nothing with a destructor is made
// between a setjmp and what it guards.
#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "data/image_codecs.h"

namespace snug::data {
namespace {

constexpr size_t kHeaderBytes = 33;  // signature and IHDR
constexpr size_t kSignatureBytes = 8;
constexpr unsigned kMostPngSide = 1u << 30;  // pixels are bounded together

uint32_t word_at(std::span<const std::byte> file, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<uint32_t>(file[at + i]);
  return word;
}

/// What libpng is handed around.
struct PngSource {
  std::span<const std::byte> file;
  size_t offset = 0;
  std::array<char, 160> problem{};
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto& problem = static_cast<PngSource*>(png_get_error_ptr(png))->problem;
  std::strncpy(problem.data(), message, problem.size() - 1);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t bytes) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (bytes > source->file.size() - source->offset) png_error(png, "it ends too early");
  std::memcpy(to, source->file.data() + source->offset, bytes);
  source->offset += bytes;
}

class PngReader {
 public:
  explicit PngReader(PngSource& source)
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, leave, ignore)),
        info_(png_ != nullptr ? png_create_info_struct(png_) : nullptr) {
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &source, read_bytes);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[nodiscard]] bool read_info() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, kMostPngSide, kMostPngSide);
    // Texts, profiles and the like are unpacked by libpng before anybody asks for them.
    skip_what_is_not_pixels();
    png_read_info(png_, info_);
    return true;
  }

  /// `rows`: as many as the image has, each of `row_bytes`, which must be those of the file.
  [[nodiscard]] bool read_pixels(png_bytepp rows, size_t row_bytes) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int color = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    const bool is_deep_grey = color == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (!is_deep_grey) {
      png_set_strip_16(png_);
      png_set_gray_to_rgb(png_);
    }
    png_set_strip_alpha(png_);
    (void)png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "its rows have another size");
    png_read_image(png_, rows);
    return true;
  }

 private:
  void skip_what_is_not_pixels() {
    static constexpr std::array<png_byte, 45> kSkipped = {
        'i', 'C', 'C', 'P', 0, 'i', 'T', 'X', 't', 0, 't', 'E', 'X', 't', 0,
        'z', 'T', 'X', 't', 0, 's', 'P', 'L', 'T', 0, 'e', 'X', 'I', 'f', 0,
        'h', 'I', 'S', 'T', 0, 'p', 'C', 'A', 'L', 0, 's', 'C', 'A', 'L', 0};
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kSkipped.data(),
                                static_cast<int>(kSkipped.size() / 5));
  }

  png_structp png_;
  png_infop info_;
};

/// Makes three bytes of each pixel of grey in 16 bits, in place. What is above 255 is white, as in
/// Pillow.
void widen_deep_grey(uint8_t* row, int64_t width) {
  for (int64_t x = width; x-- > 0;) {
    const uint8_t value = row[2 * x] != 0 ? uint8_t{255} : row[2 * x + 1];
    std::fill_n(row + 3 * x, 3, value);
  }
}

}  // namespace

bool is_png(std::span<const std::byte> file) {
  return file.size() >= kSignatureBytes &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, kSignatureBytes) == 0;
}

ImageHeader read_png_header(std::span<const std::byte> file, const std::string& where) {
  if (file.size() < kHeaderBytes) fail_image(where, "the PNG is damaged: it ends too early");
  if (std::memcmp(file.data() + 12, "IHDR", 4) != 0)
    fail_image(where, "the PNG is damaged: it has no header");
  ImageHeader header{.kind = ImageFormat::png,
                     .width = word_at(file, 16),
                     .height = word_at(file, 20),
                     .components = 3,
                     .is_deep_grey = false};
  header.is_deep_grey = file[24] == std::byte{16} && file[25] == std::byte{PNG_COLOR_TYPE_GRAY};
  return header;
}

RgbImage decode_png(std::span<const std::byte> file, const ImageHeader& header,
                    const std::string& where) {
  PngSource source{.file = file};
  PngReader reader(source);
  const auto fail = [&] {
    fail_image(where, std::string("the PNG is damaged: ") + source.problem.data());
  };
  if (!reader.read_info()) fail();
  RgbImage image = blank_image(header.width, header.height);
  std::vector<png_bytep> rows(static_cast<size_t>(header.height));
  for (int64_t y = 0; y < header.height; ++y) rows[static_cast<size_t>(y)] = image.row(y);
  const auto row_bytes = static_cast<size_t>(header.width) * (header.is_deep_grey ? 2 : 3);
  if (!reader.read_pixels(rows.data(), row_bytes)) fail();
  if (header.is_deep_grey) {
    for (const png_bytep row : rows) widen_deep_grey(row, header.width);
  }
  return image;
}

}  // namespace snug::data
