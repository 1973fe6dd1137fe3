// SPDX-License-Identifier: Apache-2.0
#include "train/frozen_source.h"

#include "io/checkpoint_tensors.h"
#include "run_model/model_weights.h"
#include "snug/error.h"

namespace snug::train {

void require_frozen_sources(const run_model::Model& model, const Session& session) {
  for (const TensorInfo& weight : session.tensors()) {
    if (!weight.is_frozen_code()) continue;
    if (!model.weights_folder.empty() && !run_model::is_in_no_base(model, weight.name)) continue;
    throw Error(ErrorCode::bad_config, "frozen_dtype",
                "'" + weight.name +
                    "' is frozen and in no folder of a model: stored in fewer "
                    "bits its values would be lost",
                "set model to a folder that has it, train it, or omit frozen_dtype");
  }
}

io::TensorToWrite FrozenSource::tensor(const TensorInfo& weight, const std::string& name) {
  if (!folder_) folder_.emplace(model_.weights_folder);
  return {.name = name,
          .dtype = io::StoredType::f32,
          .shape = weight.shape,
          .make = [this, weight](const io::TensorToWrite::Put& put) {
            const io::StoredTensor* found = run_model::find_weight(*folder_, model_, weight.name);
            if (found == nullptr || found->shape != weight.shape)
              throw Error(ErrorCode::bad_data, model_.weights_folder,
                          "the weights changed since the run began: '" + weight.name + "'",
                          "put the folder back as it was and resume");
            io::for_rows(folder_->file_of(found->name), *found,
                         [&](int64_t, std::span<const float> values) {
                           digest_.add(weight.name, values);
                           put(std::as_bytes(values));
                         });
          }};
}

void FrozenSource::check(const std::string& base_sha256) {
  if (!folder_ || digest_.finish() == base_sha256) return;
  throw Error(ErrorCode::bad_data, model_.weights_folder,
              "the weights changed since the run began: what is frozen is no longer there",
              "put the folder back as it was and resume");
}

}  // namespace snug::train
