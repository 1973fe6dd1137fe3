// SPDX-License-Identifier: Apache-2.0
// Frozen weights that a session stores in fewer bits are saved as they were in the model's folder:
// nothing of them is lost.
#pragma once

#include <optional>

#include "io/safetensors.h"
#include "io/weight_files.h"
#include "run_model/adapter_folder.h"
#include "run_model/model.h"
#include "snug/session.h"

namespace snug::train {

/// Throws Error{bad_config} at "frozen_dtype" for one that no folder holds.
void require_frozen_sources(const run_model::Model& model, const Session& session);

/// The weights of one checkpoint that come from the model's folder, a few rows at a time.
class FrozenSource {
 public:
  explicit FrozenSource(const run_model::Model& model) : model_(model) {}
  [[nodiscard]] io::TensorToWrite tensor(const TensorInfo& weight, const std::string& name);
  /// When all are written: throws Error{bad_data} where they are not what training began with.
  void check(const std::string& base_sha256);

 private:
  const run_model::Model& model_;
  std::optional<io::WeightFiles> folder_;
  run_model::BaseDigest digest_;
};

}  // namespace snug::train
