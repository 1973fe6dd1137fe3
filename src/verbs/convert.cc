// SPDX-License-Identifier: Apache-2.0
// convert_weights: a file of torch.save becomes one of safetensors.
#include <map>
#include <utility>

#include "base/float_mode.h"
#include "base/listed.h"
#include "base/stop.h"
#include "io/buffered_file.h"
#include "io/safetensors.h"
#include "io/weight_files.h"
#include "snug/error.h"
#include "snug/run.h"

namespace snug {
namespace {

/// Names of tensors whose bytes another tensor of the same file has, too.
std::vector<std::string> shared_names(const io::WeightFiles& weights) {
  std::map<std::pair<const io::TensorFile*, int64_t>, std::string> first;
  std::vector<std::string> names;
  for (const io::StoredTensor& tensor : weights.tensors()) {
    if (tensor.size_bytes() == 0) continue;
    const auto [place, is_new] =
        first.try_emplace({&weights.file_of(tensor.name), tensor.begin}, tensor.name);
    if (!is_new) names.push_back(tensor.name + " (as " + place->second + ")");
  }
  return names;
}

}  // namespace

void convert_weights(const std::string& file, const std::string& output,
                     const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  if (io::is_folder(output) || io::absolute_path(output) == io::absolute_path(file))
    throw Error(ErrorCode::bad_config, "output", "'" + output + "' cannot be written over",
                "give the name of a new file");
  if (!io::is_replaceable(output))
    throw Error(ErrorCode::bad_config, "output", "'" + output + "' is a device, a pipe or a link",
                "give the name of a new file");
  const io::WeightFiles weights(file);
  std::vector<io::TensorToWrite> tensors;
  for (const io::StoredTensor& tensor : weights.tensors())
    tensors.push_back(io::same_tensor(weights.file_of(tensor.name), tensor, tensor.name));
  io::require_free_disk(output, io::safetensors_file_bytes(tensors));
  io::TemporaryFile temporary(output, {.what = "another process is writing it",
                                       .hint = "wait for it, or give another output"});
  (void)io::write_safetensors(output + ".tmp", tensors);
  temporary.commit();
  const std::vector<std::string> shared = shared_names(weights);
  if (shared.empty() || !options.callbacks.on_message) return;
  options.callbacks.on_message("written once more, since safetensors shares nothing: " +
                               joined(shared, kListed));
}

}  // namespace snug
