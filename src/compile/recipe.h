// SPDX-License-Identifier: Apache-2.0
// How weights are trained, apart from data and network.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/pack_weights.h"
#include "compile/row_sparse.h"
#include "optim/groups.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/state_storage.h"

namespace snug::compile {

struct Recipe {
  optim::Options optimizer;
  double max_grad_norm = 1.0;  // 0: no clipping
  HyperValues given;           // hyper-parameters that the user set
  optim::GroupRules groups;
  std::vector<std::string> freeze;  // patterns; * matches any text
  bool updates = true;              // false: gradients stay in their states
  DType gradients = DType::f32;     // how they are stored where they are summed
  optim::StateStorage states = {};  // in how many bits
  optim::LossScaling scaling = optim::LossScaling::none;

  /// An update of one micro-batch goes through its program twice: first for the norm only, then
  /// each update follows its gradient, with the coefficient fed.
  bool has_two_passes = false;
  /// Weights that are packed once an update, before the products that read them.
  PackedWeights packed = {};
  /// Weights whose sums are row-sparse where gradients are summed up in states.
  RowSparseSums row_sparse = {};

  /// Whether no weight may move before the norm of all gradients is known.
  [[nodiscard]] bool waits_for_norm() const {
    return max_grad_norm > 0 || scaling == optim::LossScaling::dynamic;
  }
};

/// The names that `freeze` leaves, in order. A word of it is a name pattern, "embeddings" (what
/// comes before the first layer and is called so) or "first:N" (the first N numbered layers,
/// without the embeddings). `is_frozen`: NetworkDef's. Throws Error{bad_config} for a word that
/// names nothing, and where nothing is left to train.
[[nodiscard]] std::vector<std::string> trainable_names(
    const std::vector<std::string>& names, const std::vector<std::string>& freeze,
    const std::function<bool(const std::string&)>& is_frozen = nullptr);

}  // namespace snug::compile
