// SPDX-License-Identifier: Apache-2.0
// The weights of a model behind one name, in any form that transformers has written: one file, an
// index with its shards, or the folder that holds either.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace snug::io {

/// The names under which weights lie in the folder, those that are read first: safetensors before
/// torch.save's form and one file before shards, as transformers does.
[[nodiscard]] std::vector<std::string> weight_entries(const std::string& folder);

/// Opens one file of tensors: of torch.save where it is called so (.bin, .pt, .pth), else of
/// safetensors.
[[nodiscard]] TensorFile open_tensors(const std::string& path);

/// The tensor as it is stored, for another file, read a few bytes at a time. Refers to both. Making
/// it throws Error{numeric} for a real element that is not finite.
[[nodiscard]] TensorToWrite same_tensor(const TensorFile& file, const StoredTensor& tensor,
                                        std::string name);

class WeightFiles {
 public:
  explicit WeightFiles(const std::string& path);

  /// All tensors, sorted by name. `begin` and `end` are offsets in their own shard.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  /// What torch's wrappers put before every name: "module." (DataParallel and its like),
  /// "_orig_mod." (compile), or one after the other; mostly empty.
  [[nodiscard]] const std::string& wrapper() const { return wrapper_; }
  /// What every name begins with, up to a point; mostly empty.
  [[nodiscard]] std::string common_prefix() const;
  /// The file that holds the tensor; a missing one is Error{bad_data} with the nearest names.
  [[nodiscard]] const TensorFile& file_of(std::string_view name) const;
  void read_f32(std::string_view name, std::span<float> dst) const {
    file_of(name).read_f32(name, dst);
  }
  /// Bytes that the tables of all files take, and the index.
  [[nodiscard]] int64_t table_bytes() const;

 private:
  std::string path_;
  int64_t index_bytes_ = 0;
  std::vector<TensorFile> files_;
  std::vector<StoredTensor> tensors_;
  std::string wrapper_;
  std::map<std::string, size_t, std::less<>> file_of_name_;
};

}  // namespace snug::io
