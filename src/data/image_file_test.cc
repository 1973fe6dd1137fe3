// SPDX-License-Identifier: Apache-2.0
// CIFAR's binary batches: layout, order of files, labels, what is refused.
#include "data/image_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/data_testing.h"

namespace snug::data {
namespace {

constexpr size_t kImageBytes = 3072;

// A record whose pixel bytes count up from `first` along the planes.
std::string record(std::string_view labels, size_t first) {
  std::string bytes(labels);
  for (size_t i = 0; i < kImageBytes; ++i) bytes += static_cast<char>((first + i * 7) % 256);
  return bytes;
}
std::string label(int value) { return std::string(1, static_cast<char>(value)); }

// The float that a byte of channel c becomes.
float expected(size_t byte, size_t c) {
  const float mean[] = {0.4914F, 0.4822F, 0.4465F};
  const float deviation[] = {0.2470F, 0.2435F, 0.2616F};
  return (static_cast<float>(byte) / 255.0F - mean[c]) / deviation[c];
}

int32_t label_of(const ImageFile& images, int64_t row) {
  RowColumns columns;
  images.read_columns(row, columns);
  return columns.integers(0).front();
}

TEST(Image_file, pixels_become_channels_last_and_normal) {
  const TemporaryFolder folder;
  const ImageFile images(folder.write("a.bin", record(label(3), 10) + record(label(9), 200)));
  ASSERT_EQ(images.rows(), 2);
  EXPECT_EQ(label_of(images, 0), 3);
  EXPECT_EQ(label_of(images, 1), 9);
  std::vector<float> pixels(3 * kImageBytes, -1);
  const std::vector<int64_t> rows = {0, 1, 0, 1, 0};
  images.fill({.rows = rows, .first_slot = 3, .size = 3}, {.pixel_values = pixels});
  for (size_t pixel : {size_t{0}, size_t{1}, size_t{32}, size_t{1023}}) {
    for (size_t c = 0; c < 3; ++c) {
      const size_t at = (c * 1024 + pixel) * 7;
      EXPECT_FLOAT_EQ(pixels[pixel * 3 + c], expected((200 + at) % 256, c));
      EXPECT_FLOAT_EQ(pixels[kImageBytes + pixel * 3 + c], expected((10 + at) % 256, c));
      EXPECT_EQ(pixels[2 * kImageBytes + pixel * 3 + c], 0);
    }
  }
}

TEST(Image_file, a_folder_is_its_batches_in_order) {
  const TemporaryFolder folder;
  (void)folder.write("data_batch_2.bin", record(label(2), 0));
  (void)folder.write("data_batch_1.bin", record(label(1), 0) + record(label(0), 0));
  (void)folder.write("test_batch.bin", record(label(5), 0));
  (void)folder.write("batches.meta.txt", "a\nb\n");
  expect_error([&] { ImageFile(folder.file("")); }, ErrorCode::bad_data, "2 names for 10 classes");
  (void)folder.write("batches.meta.txt", "a\nb\nc\nd\xe9\ne\nf\ng\nh\ni\nj\n");
  expect_error([&] { ImageFile(folder.file("")); }, ErrorCode::bad_data, "is not UTF-8");
  (void)folder.write("batches.meta.txt", "a\nb\nc\na\ne\nf\ng\nh\ni\nj\n");
  expect_error([&] { ImageFile(folder.file("")); }, ErrorCode::bad_data, "'a' stands twice");
  (void)folder.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const ImageFile images(folder.file(""));
  ASSERT_EQ(images.rows(), 3);
  EXPECT_EQ(label_of(images, 0), 1);
  EXPECT_EQ(label_of(images, 1), 0);
  EXPECT_EQ(label_of(images, 2), 2);
  EXPECT_EQ(images.labels().name(2), "c");
  EXPECT_EQ(images.label_counts()[0], 1);
  EXPECT_EQ(images.label_counts()[5], 0);
}

TEST(Image_file, the_second_label_of_cifar_100_counts) {
  const TemporaryFolder folder;
  const ImageFile images(folder.write("train.bin", record(label(19) + label(99), 1)));
  EXPECT_EQ(images.labels().size(), 100);
  EXPECT_EQ(images.labels().name(99), "99");
  EXPECT_EQ(label_of(images, 0), 99);
}

TEST(Image_file, content_hash_sees_pixels_labels_and_order) {
  const TemporaryFolder folder;
  const std::string a = record(label(1), 1);
  const std::string b = record(label(2), 1);
  const auto hash_of = [&](const std::string& bytes) {
    return ImageFile(folder.write("x.bin", bytes)).content_hash();
  };
  const uint64_t base = hash_of(a + b);
  EXPECT_EQ(hash_of(a + b), base);
  EXPECT_NE(hash_of(b + a), base);
  std::string changed = a + b;
  changed[3000] = static_cast<char>(changed[3000] ^ 1);
  EXPECT_NE(hash_of(changed), base);
}

TEST(Image_file, other_files_are_refused) {
  const TemporaryFolder folder;
  expect_error([&] { ImageFile(folder.write("x.bin", "no images")); }, ErrorCode::bad_data,
               "its 9 bytes are no whole number of CIFAR records");
  expect_error([&] { ImageFile(folder.write("x.bin", "")); }, ErrorCode::bad_data, "its 0 bytes");
  expect_error([&] { ImageFile(folder.write("x.bin", record(label(10), 0))); }, ErrorCode::bad_data,
               "image 0 has the label 10 of 10");
  expect_error([&] { ImageFile(folder.file("absent.bin")); }, ErrorCode::io, "cannot read");
  const TemporaryFolder empty;
  expect_error([&] { ImageFile(empty.file("")); }, ErrorCode::bad_data, "no data_batch_*.bin");
}

TEST(Image_file, a_file_that_shrinks_is_noticed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.bin", record(label(1), 0) + record(label(2), 0));
  const ImageFile images(path);
  std::filesystem::resize_file(path, 100);
  expect_error([&] { (void)label_of(images, 1); }, ErrorCode::bad_data, "the file became shorter");
}

}  // namespace
}  // namespace snug::data
