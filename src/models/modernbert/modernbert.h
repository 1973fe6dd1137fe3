// SPDX-License-Identifier: Apache-2.0
// The ModernBERT encoder (Warner et al. 2024) with Hugging Face's classification heads: layers
// that normalise what they read, rotary positions, GeGLU, attention of whole texts and of windows
// in turn. The mathematics, parameter names and configuration of
// ModernBertForSequenceClassification and ModernBertForTokenClassification.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "nn/init.h"

namespace snug::models {

/// The fields of config.json that decide the model; defaults are Hugging Face's.
struct ModernbertConfig {
  int64_t vocab_size = 50368;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 1152;  // of each half of the gated unit
  int64_t num_hidden_layers = 22;
  int64_t num_attention_heads = 12;
  std::string hidden_activation = "gelu";
  int64_t max_position_embeddings = 8192;
  double initializer_range = 0.02;
  double initializer_cutoff_factor = 2;
  double norm_eps = 1e-5;
  bool norm_bias = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool classifier_bias = false;
  std::vector<bool> is_local{};   // by layer; empty: every layer but each third, from 0 on
  int64_t local_attention = 128;  // a local layer's token sees half of it to either side
  double global_rope_theta = 160000;
  double local_rope_theta = 10000;
  double embedding_dropout = 0;
  double attention_dropout = 0;  // of probabilities, and of what the attention adds
  double mlp_dropout = 0;
  double classifier_dropout = 0;
  bool has_mean_pooling = false;  // classifier_pooling: "mean" or "cls"
  std::string classifier_activation = "gelu";
  // Ids of tokens, which change nothing here; -1: none.
  int64_t pad_token_id = 50283;
  int64_t cls_token_id = 50281;
  int64_t sep_token_id = 50282;
  int64_t bos_token_id = 50281;
  int64_t eos_token_id = 50282;
  int64_t num_labels = 2;
  std::vector<std::string> labels{};  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head{};
  TextHead text_head{};
  bool operator==(const ModernbertConfig&) const = default;

  [[nodiscard]] int64_t max_positions() const { return max_position_embeddings; }
  void set_hidden_dropout(double rate) {
    embedding_dropout = mlp_dropout = classifier_dropout = rate;
  }
  void set_attention_dropout(double rate) { attention_dropout = rate; }
  [[nodiscard]] bool is_local_layer(int64_t layer) const {
    return is_local.empty() ? layer % 3 != 0 : is_local[static_cast<size_t>(layer)];
  }
};

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is Error{bad_config} naming file and key; fields that Snug does
/// not know are ignored and, where `ignored` is given, listed there.
[[nodiscard]] ModernbertConfig modernbert_config_from_json(
    std::string_view json, const std::string& file, std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads, of its older and its newer form at once.
[[nodiscard]] std::string modernbert_config_to_json(const ModernbertConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const ModernbertConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond
/// max_position_embeddings.
SequenceModel build_modernbert_classifier(GraphBuilder& builder, const ModernbertConfig& config,
                                          BatchShape shape, const BuildOptions& options);

[[nodiscard]] InitRule modernbert_init_rule(const ModernbertConfig& config,
                                            const std::string& parameter, const Shape& shape);

}  // namespace snug::models
