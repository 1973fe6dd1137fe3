// SPDX-License-Identifier: Apache-2.0
#include "data/class_names.h"

#include <optional>

#include "data/labels.h"
#include "data/row_files.h"
#include "io/json_file.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr const char* kKey = "huggingface";
constexpr std::string_view kSuffix = ".arrow";

// Lists are {"feature": ..., "_type": "List"}, or [...] as older versions wrote them.
std::vector<std::string> names_in(const io::JsonValue& feature) {
  if (feature.is_array())
    return feature.size() == 1 ? names_in(feature.at(int64_t{0})) : std::vector<std::string>();
  if (!feature.is_object() || !feature.has("_type")) return {};
  if (const auto item = feature.find("feature")) return names_in(*item);
  if (feature.get_string("_type") != "ClassLabel" || !feature.has("names")) return {};
  return feature.at("names").as_strings();
}

}  // namespace

std::vector<std::string> class_names(const io::ArrowFile& file, const std::string& column) {
  const std::string text = file.metadata(kKey);
  if (text.empty()) return {};
  const io::JsonValue json = io::parse_json(text, file.file().path());
  const std::optional<io::JsonValue> info = json.find("info");
  const std::optional<io::JsonValue> features = info ? info->find("features") : std::nullopt;
  const std::optional<io::JsonValue> feature = features ? features->find(column) : std::nullopt;
  if (!feature) return {};
  std::vector<std::string> names = names_in(*feature);
  for (const std::string& name : names) {
    if (name.empty() || std::ssize(name) > kMaxLabelBytes)
      feature->fail("has a class whose name is empty, or longer than " +
                    std::to_string(kMaxLabelBytes) + " bytes");
  }
  return names;
}

std::vector<std::string> class_names_of(const std::string& files, const std::string& column) {
  if (files.find(kSuffix) == std::string::npos) return {};
  std::optional<std::vector<std::string>> found;
  std::string first;
  for (const std::string& path : row_files(files)) {
    std::vector<std::string> names;
    if (path.ends_with(kSuffix)) names = class_names(io::ArrowFile(path), column);
    if (found && *found != names)
      throw Error(ErrorCode::bad_data, path,
                  "the classes of the column '" + column + "' are other ones than those of " +
                      first + ": " + (names.empty() ? "none" : list_labels(names)) + ", and " +
                      (found->empty() ? "none" : list_labels(*found)),
                  "give files of the same classes: dataset.cast_column");
    if (!found) first = path;
    found = std::move(names);
  }
  return found.value_or(std::vector<std::string>());
}

}  // namespace snug::data
