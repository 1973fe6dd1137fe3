// SPDX-License-Identifier: Apache-2.0
#include "data/image_folder.h"

#include <cmath>
#include <cstring>

#include "data/data_testing.h"
#include "data/image_tree.h"
#include "io/file.h"

namespace snug::data {
namespace {

std::string golden(const std::string& name) {
  return std::string(SNUG_SOURCE_DIR) + "/tests/golden/image_files/" + name;
}

/// cat/ has two images, one of them further below; dog/ has one.
class Images {
 public:
  Images() {
    put("photo.png", "cat/b.PNG");
    put("tall.jpg", "cat/a/deep.jpeg");
    put("grey.jpg", "dog/1.jpg");
  }
  void put(const std::string& name, const std::string& to) const {
    write(to, io::read_all(golden(name), 1 << 20));
  }
  void write(const std::string& to, const std::string& bytes) const {
    const std::string path = folder_.file("images/" + to);
    io::make_folders(io::parent_folder(path));
    io::write_file(path, bytes);
  }
  [[nodiscard]] ImageFolderSpec spec() const {
    return {.folder = folder_.file("images"),
            .frame = {.resize = ImageFrame::Resize::exact, .size = {16, 16}},
            .size = {16, 16}};
  }
  [[nodiscard]] std::unique_ptr<const ImageFolder> open(const ImageFolderSpec& spec,
                                                        const ImageHooks& hooks = {}) const {
    return ImageFolder::open(cache(), spec, {}, hooks);
  }
  [[nodiscard]] std::string cache() const { return folder_.file("train.images"); }

 private:
  TemporaryFolder folder_;
};

std::vector<float> pixels_of(const ImageFolder& images, const std::vector<int64_t>& rows) {
  std::vector<float> pixels(rows.size() * 16 * 16 * 3);
  images.fill({.rows = rows, .size = static_cast<int64_t>(rows.size())}, {.pixel_values = pixels});
  return pixels;
}

TEST(ImageFolder, classes_are_folders_and_rows_their_images_by_name) {
  const Images folder;
  folder.write("cat/notes.txt", "no image");
  folder.write("cat/.hidden.png", "no image");
  folder.write("list.csv", "no image");
  const auto images = folder.open(folder.spec());
  EXPECT_EQ(images->labels().names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(images->rows(), 3);
  EXPECT_EQ(images->name(0), "cat/a/deep.jpeg");
  EXPECT_EQ(images->name(1), "cat/b.PNG");
  EXPECT_EQ(images->name(2), "dog/1.jpg");
  RowColumns columns;
  for (int64_t row = 0; row < 3; ++row) {
    images->read_columns(row, columns);
    EXPECT_EQ(columns.integers(0).front(), row == 2 ? 1 : 0);
  }
  EXPECT_EQ(images->facts().others, 2);
  EXPECT_EQ(images->facts().label_counts[0], 2);
  ImageFolderSpec of_model = folder.spec();
  of_model.rule = {.model = {"dog", "bird", "cat"}, .is_trained = true};
  folder.open(of_model)->read_columns(0, columns);
  EXPECT_EQ(columns.integers(0).front(), 2);
  ImageFolderSpec without = folder.spec();
  without.has_classes = false;
  const auto all = folder.open(without);
  EXPECT_EQ(all->rows(), 3);
  all->read_columns(0, columns);
  EXPECT_EQ(columns.size(), 0u);
}

TEST(ImageFolder, values_are_those_of_transformers_processors) {
  struct Case {
    const char* name;
    ImageFrame frame;
    ImageNormalization normalization;
  };
  const ImageNormalization usual{.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
  const auto shorter = [](int64_t edge, Resample filter) {
    return ImageFrame{.resize = ImageFrame::Resize::shortest_edge,
                      .edge = edge,
                      .resample = filter,
                      .crop = {16, 16}};
  };
  const auto exact = [](Resample filter) {
    return ImageFrame{.resize = ImageFrame::Resize::exact, .size = {16, 16}, .resample = filter};
  };
  const Case cases[] = {
      {"vit", exact(Resample::bilinear), usual},
      {"clip", shorter(18, Resample::bicubic), usual},
      {"convnext", shorter(18, Resample::bicubic), usual},
      {"padded", shorter(13, Resample::nearest), usual},
      {"plain", exact(Resample::lanczos), {.mean = {0, 0, 0}, .deviation = {1, 1, 1}}},
  };
  const Images folder;
  for (const Case& each : cases) {
    ImageFolderSpec spec = folder.spec();
    spec.frame = each.frame;
    const auto images = ImageFolder::open(folder.cache(), spec, each.normalization);
    const std::vector<float> got = pixels_of(*images, {1, 0});
    const std::string text =
        io::read_all(golden(std::string("processed/") + each.name + ".f32"), 1 << 20);
    std::vector<float> wanted(text.size() / sizeof(float));
    std::memcpy(wanted.data(), text.data(), text.size());
    ASSERT_EQ(got.size(), wanted.size());
    float worst = 0;
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - wanted[i]));
    EXPECT_LE(worst, 1e-6F) << each.name;
  }
}

TEST(ImageFolder, a_cache_is_read_again_until_an_image_or_a_name_changes) {
  const Images folder;
  int64_t decoded = 0;
  const ImageHooks hooks{
      .comparing = {}, .decoding = [&](int64_t, int64_t) { ++decoded; }, .cancel = nullptr};
  const uint64_t hash = folder.open(folder.spec(), hooks)->content_hash();
  EXPECT_EQ(decoded, 3);
  EXPECT_EQ(folder.open(folder.spec(), hooks)->content_hash(), hash);
  EXPECT_EQ(decoded, 3);
  folder.put("photo.jpg", "dog/1.jpg");
  EXPECT_NE(folder.open(folder.spec(), hooks)->content_hash(), hash);
  EXPECT_EQ(decoded, 6);
  folder.put("grey.jpg", "dog/1.jpg");
  folder.put("grey.jpg", "dog/2.jpg");
  EXPECT_EQ(folder.open(folder.spec(), hooks)->rows(), 4);
  std::string bytes = io::read_all(folder.cache(), 1 << 20);
  const auto expect_rebuilt = [&](const std::string& damaged) {
    io::write_file(folder.cache(), damaged);
    decoded = 0;
    EXPECT_EQ(folder.open(folder.spec(), hooks)->rows(), 4);
    EXPECT_EQ(decoded, 4);
  };
  expect_rebuilt(bytes.substr(0, bytes.size() - 1));
  expect_rebuilt("");
  for (const size_t at : {size_t{20}, bytes.size() - 5, bytes.size() - 180, bytes.size() - 240}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    expect_rebuilt(damaged);
  }
  bytes[1000] = static_cast<char>(bytes[1000] ^ 4);  // a pixel: seen when it is read
  io::write_file(folder.cache(), bytes);
  const auto images = folder.open(folder.spec(), hooks);
  expect_error(
      [&] {
        (void)pixels_of(*images, {0, 1});
      },
      ErrorCode::bad_data, "image 1 does not match its checksum");
}

TEST(ImageFolder, bad_images_stop_or_are_skipped_and_counted) {
  const Images folder;
  folder.write("cat/c.png", "no image");
  folder.write("dog/0.jpg", io::read_all(golden("photo.jpg"), 1 << 20).substr(0, 900));
  expect_error([&] { (void)folder.open(folder.spec()); }, ErrorCode::bad_data,
               "cat/c.png] the file is neither PNG nor JPEG");
  ImageFolderSpec spec = folder.spec();
  spec.bad_rows = BadRows::skip;
  const auto images = folder.open(spec);
  EXPECT_EQ(images->rows(), 3);
  EXPECT_EQ(images->facts().bad, 2);
  EXPECT_NE(images->facts().bad_examples.at(1).find("dog/0.jpg: the JPEG is damaged: Premature"),
            std::string::npos);
  std::vector<std::string> bad;
  for_each_bad_image(spec, [&](int64_t number, const std::string& name, const std::string&) {
    bad.push_back(std::to_string(number) + " " + name);
  });
  EXPECT_EQ(bad, (std::vector<std::string>{"2 cat/c.png", "3 dog/0.jpg"}));
  spec.frame = {};
  expect_error([&] { (void)folder.open(spec); }, ErrorCode::bad_data,
               "of 5 images none can be read, such as");
}

TEST(ImageFolder, what_it_refuses) {
  const Images folder;
  ImageFolderSpec spec = folder.spec();
  spec.affordable_bytes = 100'000;
  expect_error([&] { (void)folder.open(spec); }, ErrorCode::out_of_budget,
               "pixels take 10");  // a decoder's tables
  spec = folder.spec();
  spec.frame = {.resize = ImageFrame::Resize::shortest_edge, .edge = 16'000, .crop = {16, 16}};
  expect_error([&] { (void)folder.open(spec); }, ErrorCode::bad_data, "would be resized to");
  folder.write("cat/x.webp", "RIFF");
  expect_error([&] { (void)folder.open(folder.spec()); }, ErrorCode::bad_data,
               "cat/x.webp] images of this format are not read");
  const Images empty;
  empty.write("none/readme.txt", "");
  expect_error([&] { (void)empty.open(empty.spec()); }, ErrorCode::bad_data,
               "images/none] the folder is a class, and there is no PNG or JPEG in it");
  spec = folder.spec();
  spec.folder += "/dog";
  expect_error([&] { (void)folder.open(spec); }, ErrorCode::bad_data,
               "there is no folder in it, and no data_batch");
  const Images unlike;
  spec = unlike.spec();
  spec.rule = {.model = {"bird", "fish"}, .is_trained = true};
  expect_error([&] { (void)unlike.open(spec); }, ErrorCode::bad_data, "bird");
}

}  // namespace
}  // namespace snug::data
