// SPDX-License-Identifier: Apache-2.0
#include "data/image_tree.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/ascii.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr int kMostLevels = 16;
constexpr std::array<std::string_view, 3> kRead = {".png", ".jpg", ".jpeg"};
constexpr std::array<std::string_view, 11> kNotRead = {
    ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".heic", ".avif", ".jfif", ".jp2"};

std::string suffix_in_lower_case(const std::string& name) {
  const size_t point = name.rfind('.');
  return point == std::string::npos ? std::string() : ascii::lowered(name.substr(point));
}

bool stands_in(std::string_view suffix, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), suffix) != list.end();
}

std::vector<std::string> visible_names(const std::string& folder) {
  std::vector<std::string> names = io::list_folder(folder);
  if (static_cast<int64_t>(names.size()) > kMostNamesInFolder)
    throw Error(ErrorCode::unsupported, folder,
                "the folder has " + std::to_string(names.size()) + " names; at most " +
                    std::to_string(kMostNamesInFolder) + " are sorted in memory",
                "spread the files over folders in it");
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

class Walk {
 public:
  Walk(const std::string& folder, const std::function<void(const ImagePlace&)>& take)
      : folder_(folder), take_(take) {}

  void go(const std::string& below, int64_t class_index, int level) {
    if (level > kMostLevels)
      throw Error(ErrorCode::bad_data, folder_ + "/" + below,
                  "folders are nested more than " + std::to_string(kMostLevels) +
                      " deep, or a link leads back to one above it",
                  "remove the link, or give a folder further down");
    for (const std::string& name : visible_names(folder_ + "/" + below)) {
      const std::string path = below + name;
      if (io::is_folder(folder_ + "/" + path)) {
        go(path + "/", class_index, level + 1);
      } else {
        see(path, class_index);
      }
    }
  }
  /// Counts the files of the folder itself, where classes are asked for.
  void pass_over_files() {
    for (const std::string& name : visible_names(folder_))
      count_.others += io::is_folder(folder_ + "/" + name) ? 0 : 1;
  }
  [[nodiscard]] const ImageCount& count() const { return count_; }

 private:
  void see(const std::string& path, int64_t class_index) {
    const std::string suffix = suffix_in_lower_case(path);
    if (stands_in(suffix, kNotRead))
      throw Error(ErrorCode::bad_data, folder_ + "/" + path,
                  "images of this format are not read; PNG and JPEG are",
                  "convert it, or remove it");
    if (!stands_in(suffix, kRead)) {
      ++count_.others;
      return;
    }
    ++count_.images;
    take_({.name = path, .class_index = class_index});
  }

  const std::string& folder_;
  const std::function<void(const ImagePlace&)>& take_;
  ImageCount count_;
};

}  // namespace

std::vector<std::string> image_classes(const std::string& folder) {
  std::vector<std::string> classes = visible_names(folder);
  std::erase_if(classes,
                [&](const std::string& name) { return !io::is_folder(folder + "/" + name); });
  if (!classes.empty()) return classes;
  throw Error(ErrorCode::bad_data, folder,
              "there is no folder in it, and no data_batch_*.bin or train.bin",
              "put the images of each class into a folder of its name (cat/1.png, dog/1.png), or "
              "give CIFAR's binary version");
}

ImageCount for_each_image(const std::string& folder, const std::vector<std::string>& classes,
                          const std::function<void(const ImagePlace&)>& take) {
  Walk walk(folder, take);
  if (classes.empty()) walk.go("", -1, 0);
  if (!classes.empty()) walk.pass_over_files();
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t before = walk.count().images;
    walk.go(classes[i] + "/", static_cast<int64_t>(i), 1);
    if (walk.count().images > before) continue;
    throw Error(ErrorCode::bad_data, folder + "/" + classes[i],
                "the folder is a class, and there is no PNG or JPEG in it",
                "remove it, or put its images there");
  }
  return walk.count();
}

bool holds_cifar(const std::string& folder) {
  const std::vector<std::string> names = io::list_folder(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return (name.starts_with("data_batch") && name.ends_with(".bin")) || name == "train.bin";
  });
}

}  // namespace snug::data
