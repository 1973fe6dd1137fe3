// SPDX-License-Identifier: Apache-2.0
// The smallest model of text: the mean of the word embeddings over the tokens that are there,
// linear layers with relu, a linear classifier. Rows without tokens have the mean 0.
//   embeddings.weight (vocab_size, embedding_size)   layers.I.weight, .bias   classifier.weight,
//   .bias
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

struct MlpConfig {
  int64_t vocab_size = 30522;
  int64_t embedding_size = 0;  // 0: the first of hidden_sizes
  std::vector<int64_t> hidden_sizes = {256};
  double dropout = 0;        // after the mean and after every relu
  int64_t pad_token_id = 0;  // -1: none
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head;
  bool operator==(const MlpConfig&) const = default;
  void set_hidden_dropout(double rate) { dropout = rate; }
};

[[nodiscard]] MlpConfig mlp_config_from_json(std::string_view json, const std::string& file,
                                             std::vector<std::string>* ignored = nullptr);
/// A config.json with "model_type": "mlp".
[[nodiscard]] std::string mlp_config_to_json(const MlpConfig& config);
/// Throws Error{bad_config} at `where`.
void validate(const MlpConfig& config, const std::string& where);

/// Builds the classifier into an empty builder; token_type_ids stays kNone.
SequenceModel build_mlp_classifier(GraphBuilder& builder, const MlpConfig& config, BatchShape shape,
                                   const BuildOptions& options);

/// Embeddings N(0, 0.1), linear weights N(0, 2 / fan-in) before a relu and N(0, 1 / fan-in) in the
/// classifier.
[[nodiscard]] InitRule mlp_init_rule(const MlpConfig& config, const std::string& parameter,
                                     const Shape& shape);

}  // namespace snug::models
