// SPDX-License-Identifier: Apache-2.0
// Files of every form against what Pillow makes of them (tools/golden/image_files.py).
#include "data/image_decode.h"

#include "data/data_testing.h"
#include "data/image_frame.h"
#include "io/file.h"

namespace snug::data {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kWidth = 37;
constexpr int64_t kHeight = 23;

std::string golden(const std::string& name) {
  return std::string(SNUG_SOURCE_DIR) + "/tests/golden/image_files/" + name;
}

std::span<const std::byte> bytes_in(const std::string& file) {
  return std::as_bytes(std::span(file));
}

RgbImage decoded(const std::string& file) {
  const ImageHeader header = read_image_header(bytes_in(file), "image");
  return decode_image(bytes_in(file), header, "image");
}

std::vector<uint8_t> golden_bytes(const std::string& name) {
  const std::string text = io::read_all(golden(name), kMostBytes);
  return {text.begin(), text.end()};
}

RgbImage photo() {
  return {.width = kWidth, .height = kHeight, .bytes = golden_bytes("photo.png.rgb")};
}

TEST(ImageDecode, files_of_every_form_are_what_pillow_makes_of_them) {
  int64_t files = 0;
  for (const std::string& name : io::list_folder(golden(""))) {
    if (!name.ends_with(".png") && !name.ends_with(".jpg")) continue;
    const RgbImage image = decoded(io::read_all(golden(name), kMostBytes));
    EXPECT_EQ(image.bytes, golden_bytes(name + ".rgb")) << name;
    EXPECT_EQ(image.width, name == "tall.jpg" ? 19 : kWidth) << name;
    ++files;
  }
  EXPECT_EQ(files, 24);
}

TEST(ImageDecode, every_cut_of_a_file_is_an_error_or_the_whole_image) {
  for (const char* name :
       {"photo.png", "palette.png", "photo.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const std::string whole = io::read_all(golden(name), kMostBytes);
    const std::vector<uint8_t> wanted = golden_bytes(std::string(name) + ".rgb");
    size_t errors = 0;
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      try {
        EXPECT_EQ(decoded(whole.substr(0, bytes)).bytes, wanted) << name << " " << bytes;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_data);
        ++errors;
      }
    }
    EXPECT_GT(errors, whole.size() - 40) << name;
  }
}

TEST(ImageDecode, what_is_no_image_says_why) {
  const std::string png = io::read_all(golden("photo.png"), kMostBytes);
  const std::string jpeg = io::read_all(golden("photo.jpg"), kMostBytes);
  const auto with = [](std::string text, size_t at, std::string_view bytes) {
    return text.replace(at, bytes.size(), bytes);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "image] the file is empty"},
      {"GIF89a", "the file is neither PNG nor JPEG\nhint: replace or remove the file"},
      {png.substr(0, 20), "the PNG is damaged: it ends too early"},
      {png.substr(0, 200), "the PNG is damaged: it ends too early"},
      {with(png, 200, "damage"), "the PNG is damaged: "},
      {with(png, 16, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8)),
       "the image has 2147483647 x 2147483647 pixels, more than 89478485 in all"},
      {with(png, 16, std::string(4, '\0')), "the image has no pixels"},
      {jpeg.substr(0, 100), "the JPEG is damaged: it has no header"},
      {jpeg.substr(0, jpeg.size() - 50), "the JPEG is damaged: Premature end"},
      {with(jpeg, jpeg.find("\xFF\xC0") + 5, "\xFF\xF0\xFF\xF0"),
       "65520 x 65520 pixels, more than"},
      {with(jpeg, jpeg.find("\xFF\xC0") + 4, "\x0c"), "the JPEG has 12 bits a value; 8 are read"},
      {with(jpeg, jpeg.find("\xFF\xC0") + 9, "\x02"), "the JPEG has 2 colours"},
  };
  for (const auto& each : cases)
    expect_error([&] { (void)decoded(each.first); }, ErrorCode::bad_data, each.second);
}

TEST(Resample, every_filter_is_pillows_to_the_byte) {
  const char* const names[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
  int64_t files = 0;
  for (const std::string& file : io::list_folder(golden("resized"))) {
    const size_t dash = file.find('-');
    const auto* const name = std::find(std::begin(names), std::end(names), file.substr(0, dash));
    ASSERT_NE(name, std::end(names)) << file;
    const int64_t width = std::stoll(file.substr(dash + 1));
    const int64_t height = std::stoll(file.substr(file.find('x', dash) + 1));
    const RgbImage image =
        resized(photo(), width, height, static_cast<Resample>(name - std::begin(names)));
    EXPECT_EQ(image.bytes, golden_bytes("resized/" + file)) << file;
    ++files;
  }
  EXPECT_EQ(files, 42);
}

TEST(ImageFrame, sizes_follow_from_the_shorter_side_and_the_middle) {
  ImageFrame frame{.resize = ImageFrame::Resize::shortest_edge, .edge = 18};
  EXPECT_EQ(frame.resized_to({37, 23}), (ImageSize{28, 18}));
  EXPECT_EQ(frame.resized_to({23, 37}), (ImageSize{18, 28}));
  EXPECT_EQ(frame.result(), ImageSize{});
  frame.crop = {16, 20};
  EXPECT_EQ(frame.result(), (ImageSize{16, 20}));
  EXPECT_EQ(frame.text(), "shorter side resized to 18 (bilinear), the middle of 16 x 20");
  const RgbImage padded = framed(photo(), {.crop = {40, 20}});
  EXPECT_EQ(padded.row(0)[5], 0);
  EXPECT_EQ(padded.row(0)[6], photo().row(1)[0]);
  EXPECT_EQ(padded.row(19)[6 + 3 * 36], photo().row(20)[3 * 36]);
  EXPECT_EQ(padded.row(0)[6 + 3 * 37], 0);
}

}  // namespace
}  // namespace snug::data
