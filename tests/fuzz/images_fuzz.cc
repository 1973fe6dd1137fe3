// SPDX-License-Identifier: Apache-2.0
// CIFAR's files. Records are completed to their size, so that a few bytes are a file; names of
// classes lie behind the first NUL.
#include <span>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "data/image_file.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {

void read_images(std::string_view input) {
  const unsigned char choice = take_byte(input);
  const auto parts = parts_of(input, 2);
  std::string bytes(parts[1]);
  const size_t record = (choice & 1) != 0 ? 3074 : 3073;
  if ((choice & 2) == 0) bytes.resize((bytes.size() / record + 1) * record, '\x01');
  const std::string file = write_file("images.bin", bytes);
  (void)write_file((choice & 1) != 0 ? "fine_label_names.txt" : "batches.meta.txt", parts[0]);
  const data::ImageFile images(file);
  for (const std::string& name : images.labels().names())
    require(!first_invalid_utf8(name), "a class has a name of UTF-8");
  std::vector<float> pixels(3072);
  data::RowColumns columns;
  for (int64_t row = 0; row < images.rows(); ++row) {
    images.fill({.rows = std::span(&row, 1), .size = 1}, {.pixel_values = pixels});
    images.read_columns(row, columns);
    const int32_t label = columns.integers(0).front();
    require(label >= 0 && label < images.labels().size(), "a label is a class");
  }
}

}  // namespace snug::fuzz
