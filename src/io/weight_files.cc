// SPDX-License-Identifier: Apache-2.0
#include "io/weight_files.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/finite.h"
#include "base/stop.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "io/nearest.h"
#include "io/safetensors.h"
#include "io/torch_file.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr std::string_view kEntries[] = {"model.safetensors", "model.safetensors.index.json",
                                         "pytorch_model.bin", "pytorch_model.bin.index.json"};
constexpr int64_t kPartBytes = 256 << 10;
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// The file to open for a path that may be a folder.
std::string entry_of(const std::string& path) {
  if (!is_folder(path)) return path;
  const std::vector<std::string> entries = weight_entries(path);
  if (!entries.empty()) return path + "/" + entries.front();
  throw Error(ErrorCode::bad_data, path,
              "the folder holds no model.safetensors and no pytorch_model.bin, nor an index of one",
              "give the folder of a saved model");
}

// A shard must lie beside its index: a foreign file may not name other places.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The wrappers that the prefix begins with.
std::string wrapper_in(std::string_view prefix) {
  std::string_view rest = prefix;
  for (bool is_one = true; is_one;) {
    is_one = false;
    for (const std::string_view each : {"module.", "_orig_mod."}) {
      if (!rest.starts_with(each)) continue;
      rest.remove_prefix(each.size());
      is_one = true;
    }
  }
  return std::string(prefix.substr(0, prefix.size() - rest.size()));
}

template <class T>
void require_finite(const TensorFile& file, const StoredTensor& tensor, int64_t first,
                    std::span<const std::byte> part) {
  const std::span<const T> values{reinterpret_cast<const T*>(part.data()), part.size() / sizeof(T)};
  const int64_t at = first_not_finite(values);
  if (at < 0) return;
  const T value = values[static_cast<size_t>(at)];
  NotFinite found{.name = tensor.name, .element = first + at};
  if constexpr (std::is_same_v<T, double>) {
    found.value = value;
  } else {
    found.value = static_cast<double>(to_f32(value));
  }
  refuse_not_finite(file.path(), found);
}

void require_finite(const TensorFile& file, const StoredTensor& tensor, int64_t first,
                    std::span<const std::byte> part) {
  switch (tensor.dtype) {
    case StoredType::f64:
      return require_finite<double>(file, tensor, first, part);
    case StoredType::f32:
      return require_finite<float>(file, tensor, first, part);
    case StoredType::bf16:
      return require_finite<Bf16>(file, tensor, first, part);
    case StoredType::f16:
      return require_finite<F16>(file, tensor, first, part);
    default:
      return;
  }
}

}  // namespace

std::vector<std::string> weight_entries(const std::string& folder) {
  std::vector<std::string> found;
  for (const std::string_view name : kEntries) {
    const std::string file = folder + "/" + std::string(name);
    // The first is read, and none in its place; the others are only named.
    if (found.empty() ? has_file(file) : file_exists(file)) found.emplace_back(name);
  }
  return found;
}

TensorFile open_tensors(const std::string& path) {
  for (const char* suffix : {".bin", ".pt", ".pth"}) {
    if (path.ends_with(suffix)) return TorchFile(path);
  }
  return SafetensorsFile(path);
}

TensorToWrite same_tensor(const TensorFile& file, const StoredTensor& tensor, std::string name) {
  return {
      .name = std::move(name),
      .dtype = tensor.dtype,
      .shape = tensor.shape,
      .make = [&file, &tensor](const TensorToWrite::Put& put) {
        std::vector<std::byte> part(kPartBytes);
        const int64_t size = bytes_of(tensor.dtype);
        const int64_t at_once = kPartBytes / size;
        for (int64_t first = 0; first < tensor.elements(); first += at_once) {
          stop_point();
          const int64_t count = std::min(at_once, tensor.elements() - first);
          file.read(tensor, first, count, part.data());
          const std::span<const std::byte> bytes{part.data(), static_cast<size_t>(count * size)};
          require_finite(file, tensor, first, bytes);
          put(bytes);
        }
      }};
}

WeightFiles::WeightFiles(const std::string& path) : path_(entry_of(path)) {
  if (!path_.ends_with(".json")) {
    files_.push_back(open_tensors(path_));
    tensors_ = files_[0].tensors();
    for (const StoredTensor& tensor : tensors_) file_of_name_.emplace(tensor.name, 0);
  } else {
    const JsonValue map = load_json(path_, kMaxIndexBytes).at("weight_map");
    index_bytes_ = bytes_of_file(path_);
    std::map<std::string, size_t> opened;
    for (const std::string& name : map.keys()) {
      const JsonValue field = map.at(name);
      const std::string shard = field.as_string();
      if (!is_plain_name(shard))
        field.fail("must be the name of a file in the same folder, found " + quote_json(shard));
      const auto [entry, is_new] = opened.emplace(shard, files_.size());
      const std::string file = parent_folder(path_) + "/" + shard;
      if (is_new && !has_file(file))
        field.fail("names the shard " + quote_json(shard) + ", which is not beside it",
                   "get all shards that the index names, or save the model again");
      if (is_new) files_.push_back(open_tensors(file));
      const StoredTensor* tensor = files_[entry->second].find(name);
      if (tensor == nullptr)
        field.fail("names the shard " + quote_json(shard) + ", which lacks this tensor");
      tensors_.push_back(*tensor);
      file_of_name_.emplace(name, entry->second);
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  wrapper_ = wrapper_in(common_prefix());
}

// Names are sorted: what the first and the last share, all do.
std::string WeightFiles::common_prefix() const {
  if (tensors_.empty()) return {};
  const std::string& first = tensors_.front().name;
  const std::string& last = tensors_.back().name;
  const auto end = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const std::string shared(first.begin(), end);
  return shared.substr(0, shared.rfind('.') + 1);
}

const StoredTensor* WeightFiles::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const StoredTensor& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const TensorFile& WeightFiles::file_of(std::string_view name) const {
  const auto found = file_of_name_.find(name);
  if (found != file_of_name_.end()) return files_[found->second];
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorCode::bad_data, path_, "there is no tensor " + quote_json(name),
              nearest.empty() ? "check that the weights belong to this model"
                              : "there is " + quote_json(nearest));
}

int64_t WeightFiles::table_bytes() const {
  int64_t bytes = index_bytes_;
  for (const TensorFile& file : files_) bytes += file.table_bytes();
  return bytes;
}

}  // namespace snug::io
