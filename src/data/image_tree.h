// SPDX-License-Identifier: Apache-2.0
// Which files of a folder are images, and of which class: torchvision's ImageFolder. A class is a
// folder in the folder; its images are the PNG and JPEG files in it and below it. The names of one
// folder at a time are in memory, not those of all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace snug::data {

/// Names of files and folders in one folder, together.
inline constexpr int64_t kMostNamesInFolder = int64_t{1} << 18;

struct ImagePlace {
  std::string name;         // its path below the folder, "cat/1.png"
  int64_t class_index = 0;  // in image_classes; -1: classes are not asked for
};

/// Names of the folders in it, sorted by their bytes. Throws Error{bad_data} where there are none,
/// Error{io}.
[[nodiscard]] std::vector<std::string> image_classes(const std::string& folder);

struct ImageCount {
  int64_t images = 0;
  int64_t others = 0;  // files that are no images, or stand in no class: they are passed over
};
/// Calls `take` for every image, in the order of the names in each folder. `classes` empty: all
/// images below the folder, of no class. What begins with a point is passed over unseen. Throws
/// Error{bad_data} for an image of another format (.webp, .gif, ...), whose absence would go
/// unnoticed, for a class without images, and for links that lead in a circle; Error{io}.
ImageCount for_each_image(const std::string& folder, const std::vector<std::string>& classes,
                          const std::function<void(const ImagePlace&)>& take);

/// True where its images are CIFAR's binary files (image_file.h).
[[nodiscard]] bool holds_cifar(const std::string& folder);

}  // namespace snug::data
