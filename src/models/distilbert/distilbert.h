// SPDX-License-Identifier: Apache-2.0
// DistilBERT (Sanh et al. 2019) with the head for sequences: the mathematics, parameter names and
// configuration of Hugging Face's DistilBertForSequenceClassification. BERT's encoder without token
// types, pooler and dropout behind attention; the head reads the first token.
//   distilbert.embeddings.{word_embeddings,position_embeddings}.weight, .LayerNorm.{weight,bias}
//   distilbert.transformer.layer.N.attention.{q_lin,k_lin,v_lin,out_lin}.{weight,bias}
//   ... .sa_layer_norm, .ffn.{lin1,lin2}, .output_layer_norm
//   pre_classifier.{weight,bias}   classifier.{weight,bias}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

/// The fields of config.json that decide the model; names and defaults are Hugging Face's.
struct DistilbertConfig {
  int64_t vocab_size = 30522;
  int64_t dim = 768;
  int64_t n_layers = 6;
  int64_t n_heads = 12;
  int64_t hidden_dim = 3072;
  std::string activation = "gelu";
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double seq_classif_dropout = 0.2;
  int64_t max_position_embeddings = 512;
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;  // -1: none
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head;
  TextHead text_head{};
  bool operator==(const DistilbertConfig&) const = default;
  /// Before the classifier.
  [[nodiscard]] double classifier_rate() const {
    return head.kind == HeadKind::row ? seq_classif_dropout : dropout;
  }
  [[nodiscard]] int64_t max_positions() const { return max_position_embeddings; }
  /// As BERT's: the classifier follows the hidden states.
  void set_hidden_dropout(double rate) { dropout = seq_classif_dropout = rate; }
  void set_attention_dropout(double rate) { attention_dropout = rate; }
};

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is Error{bad_config} naming file and key; fields that Snug does
/// not know are ignored and, where `ignored` is given, listed there.
[[nodiscard]] DistilbertConfig distilbert_config_from_json(
    std::string_view json, const std::string& file, std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string distilbert_config_to_json(const DistilbertConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const DistilbertConfig& config, const std::string& where);

/// Builds the classifier into an empty builder; token_type_ids stays kNone. Throws
/// Error{bad_config} for a length beyond the position table.
SequenceModel build_distilbert_classifier(GraphBuilder& builder, const DistilbertConfig& config,
                                          BatchShape shape, const BuildOptions& options);

/// How Hugging Face initialises the parameter of this name.
[[nodiscard]] InitRule distilbert_init_rule(const DistilbertConfig& config,
                                            const std::string& parameter, const Shape& shape);

}  // namespace snug::models
