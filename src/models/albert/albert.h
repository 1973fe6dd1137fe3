// SPDX-License-Identifier: Apache-2.0
// ALBERT (Lan et al. 2019) with Hugging Face's heads: every layer of a group has the same weights,
// so a weight is one parameter with as many uses, whose gradients are summed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/encoder.h"
#include "models/model.h"

namespace snug::models {

struct AlbertConfig : EncoderConfig {
  int64_t num_hidden_groups = 1;  // of layers with weights of their own
  int64_t inner_group_num = 1;    // layers of a group
  double classifier_dropout_prob = 0.1;
  [[nodiscard]] int64_t inner_layers() const { return num_hidden_layers * inner_group_num; }
  void set_hidden_dropout(double rate) { hidden_dropout_prob = classifier_dropout_prob = rate; }

  AlbertConfig() {
    vocab_size = 30000;
    embedding_size = 128;
    hidden_size = 4096;
    num_attention_heads = 64;
    intermediate_size = 16384;
    hidden_act = "gelu_new";
    hidden_dropout_prob = 0;
    attention_probs_dropout_prob = 0;
  }
  bool operator==(const AlbertConfig&) const = default;
};

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is an Error naming file and key; fields that Snug does not know
/// are ignored and, where `ignored` is given, listed there.
[[nodiscard]] AlbertConfig albert_config_from_json(std::string_view json, const std::string& file,
                                                   std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string albert_config_to_json(const AlbertConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const AlbertConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond
/// max_positions().
SequenceModel build_albert_classifier(GraphBuilder& builder, const AlbertConfig& config,
                                      BatchShape shape, const BuildOptions& options);

}  // namespace snug::models
