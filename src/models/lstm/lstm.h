// SPDX-License-Identifier: Apache-2.0
// A classifier of text by an LSTM of one or more layers, unrolled over the tokens: word embeddings,
// the layers, the last state h of the top layer, a linear classifier. A row's states stop at its
// last token, as those of PyTorch's packed sequences do. Parameters have the names of nn.LSTM:
//   embeddings.weight (vocab_size, embedding_size)
//   lstm.weight_ih_lK (4 hidden_size, input size)   lstm.weight_hh_lK (4 hidden_size, hidden_size)
//   lstm.bias_ih_lK, lstm.bias_hh_lK (4 hidden_size)   gates in the order i, f, g, o
//   classifier.weight, .bias
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

struct LstmConfig {
  int64_t vocab_size = 30522;
  int64_t embedding_size = 0;  // 0: hidden_size
  int64_t hidden_size = 256;
  int64_t num_hidden_layers = 1;
  double dropout = 0;        // between layers, as nn.LSTM's, and before the classifier
  int64_t pad_token_id = 0;  // -1: none
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head;
  bool operator==(const LstmConfig&) const = default;
  void set_hidden_dropout(double rate) { dropout = rate; }
};

[[nodiscard]] LstmConfig lstm_config_from_json(std::string_view json, const std::string& file,
                                               std::vector<std::string>* ignored = nullptr);
/// A config.json with "model_type": "lstm".
[[nodiscard]] std::string lstm_config_to_json(const LstmConfig& config);
/// Throws Error{bad_config} at `where`.
void validate(const LstmConfig& config, const std::string& where);

/// Builds the classifier into an empty builder; token_type_ids stays kNone.
SequenceModel build_lstm_classifier(GraphBuilder& builder, const LstmConfig& config,
                                    BatchShape shape, const BuildOptions& options);

/// Embeddings N(0, 1) as nn.Embedding's; all of the LSTM with the variance of nn.LSTM's
/// U(-1 / sqrt(H), 1 / sqrt(H)); classifier N(0, 1 / fan-in), bias 0.
[[nodiscard]] InitRule lstm_init_rule(const LstmConfig& config, const std::string& parameter,
                                      const Shape& shape);

}  // namespace snug::models
