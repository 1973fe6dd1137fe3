// SPDX-License-Identifier: Apache-2.0
// The BERT encoder with pooler and sequence-classification head: the mathematics, parameter names
// and configuration of Hugging Face's BertForSequenceClassification (post-layer-norm, absolute
// positions). Weights come from nn/init.h or from a file; nothing here allocates them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

/// The fields of config.json that decide the model; defaults are Hugging Face's.
struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::optional<double> classifier_dropout;  // unset: hidden_dropout_prob
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;  // -1: none
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head;
  TextHead text_head{};
  bool operator==(const BertConfig&) const = default;
  [[nodiscard]] double classifier_rate() const {
    return classifier_dropout.value_or(hidden_dropout_prob);
  }
};

/// "bert-tiny", "-mini", "-small", "-medium", "-base", "-large". Throws Error{bad_config}.
[[nodiscard]] bool is_bert_preset(std::string_view name);
[[nodiscard]] BertConfig bert_preset(std::string_view name);

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is Error{bad_config} naming file and key; fields that Snug does
/// not know are ignored and, where `ignored` is given, listed there.
[[nodiscard]] BertConfig bert_config_from_json(std::string_view json, const std::string& file,
                                               std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string bert_config_to_json(const BertConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be (heads that do not divide the
/// width, a rate of 1).
void validate(const BertConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond the
/// position table.
SequenceModel build_bert_classifier(GraphBuilder& builder, const BertConfig& config,
                                    BatchShape shape, const BuildOptions& options);

/// How Hugging Face initialises the parameter of this name.
[[nodiscard]] InitRule bert_init_rule(const BertConfig& config, const std::string& parameter);

}  // namespace snug::models
