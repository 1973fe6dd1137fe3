// SPDX-License-Identifier: Apache-2.0
// DeBERTa v2 and v3 (He et al. 2020, 2021) with a head: the mathematics, parameter names and
// configuration of Hugging Face's DebertaV2ForSequenceClassification and ...ForTokenClassification.
// BERT's layers with disentangled attention: scores know what the tokens say and how far apart they
// stand, by a table of distances that all layers share and each projects for itself.
//   deberta.embeddings.word_embeddings.weight, .LayerNorm.{weight,bias}
//       with their own width also .embed_proj.weight, where the configuration has them also
//       .position_embeddings.weight and .token_type_embeddings.weight
//   deberta.encoder.rel_embeddings.weight (2 span, H), .LayerNorm.{weight,bias} over it
//   deberta.encoder.layer.N.attention.self.{query_proj,key_proj,value_proj}.{weight,bias}
//       without share_att_key also .{pos_key_proj,pos_query_proj}
//   ... .attention.output.{dense,LayerNorm}, .intermediate.dense, .output.{dense,LayerNorm}
//   deberta.encoder.conv.{conv,LayerNorm}.{weight,bias} (v2-xlarge)
//   pooler.dense.{weight,bias} of rows   classifier.{weight,bias}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/encoder.h"
#include "models/model.h"

namespace snug::models {

/// The fields of config.json that decide the model; names and defaults are Hugging Face's.
struct DebertaConfig : EncoderConfig {
  double pooler_dropout = 0;
  std::string pooler_hidden_act = "gelu";
  std::optional<double> cls_dropout;  // unset: hidden_dropout_prob
  bool position_biased_input = true;  // absolute positions are added to the words
  bool relative_attention = false;
  bool share_att_key = false;  // distances go through the projections of the tokens
  // pos_att_type: scores of distances by the query (c2p), by the key (p2c).
  bool content_to_position = false;
  bool position_to_content = false;
  int64_t position_buckets = -1;        // below 1: every distance by itself
  int64_t max_relative_positions = -1;  // below 1: max_position_embeddings
  bool has_relative_norm = false;       // norm_rel_ebd "layer_norm"
  int64_t conv_kernel_size = 0;         // 0: none
  int64_t conv_groups = 1;
  std::string conv_act = "tanh";

  DebertaConfig() {
    vocab_size = 128100;
    hidden_size = 1536;
    num_hidden_layers = 24;
    num_attention_heads = 24;
    intermediate_size = 6144;
    type_vocab_size = 0;
    layer_norm_eps = 1e-7;
  }
  bool operator==(const DebertaConfig&) const = default;

  [[nodiscard]] int64_t furthest() const {
    return max_relative_positions < 1 ? max_position_embeddings : max_relative_positions;
  }
  /// The dropout rate of what the classifier reads.
  [[nodiscard]] double classifier_rate() const {
    return head.kind == HeadKind::row ? cls_dropout.value_or(hidden_dropout_prob)
                                      : hidden_dropout_prob;
  }
  /// The table of distances has 2 span rows.
  [[nodiscard]] int64_t span() const {
    return position_buckets > 0 ? position_buckets : furthest();
  }
  /// As BERT's: the classifier follows the hidden states.
  void set_hidden_dropout(double rate) {
    hidden_dropout_prob = rate;
    cls_dropout.reset();
  }
  /// The longest row in tokens; 0: any.
  [[nodiscard]] int64_t max_positions() const;
};

/// "deberta-v3-base", ...; nothing for other names.
[[nodiscard]] std::optional<DebertaConfig> find_deberta_preset(std::string_view name);
/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is an Error naming file and key; fields that Snug does not know
/// are ignored and, where `ignored` is given, listed there.
[[nodiscard]] DebertaConfig deberta_config_from_json(std::string_view json, const std::string& file,
                                                     std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string deberta_config_to_json(const DebertaConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const DebertaConfig& config, const std::string& where);

/// Builds the classifier into an empty builder; token_type_ids stays kNone without types. Throws
/// Error{bad_config} for a length beyond the model's positions.
SequenceModel build_deberta_classifier(GraphBuilder& builder, const DebertaConfig& config,
                                       BatchShape shape, const BuildOptions& options);

/// How Hugging Face initialises the parameter of this name.
[[nodiscard]] InitRule deberta_init_rule(const DebertaConfig& config, const std::string& parameter,
                                         const Shape& shape);

}  // namespace snug::models
