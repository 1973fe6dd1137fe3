// SPDX-License-Identifier: Apache-2.0
// What encoders of the first generation have in common: the fields of their config.json, words plus
// types plus positions, and layers that normalise what they give (Devlin et al. 2018). A family
// adds its own fields, names and head. B rows, T tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/family.h"
#include "nn/layers.h"

namespace snug::models {

class ConfigReader;

/// Names are Hugging Face's, whose defaults differ from family to family.
struct EncoderConfig {
  int64_t vocab_size = 30522;
  int64_t embedding_size = 0;  // of words, types and positions; 0: hidden_size
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;  // -1: none
  int64_t num_labels = 2;
  std::vector<std::string> labels{};  // by id; empty: LABEL_0, LABEL_1, ... when written
  Head head{};
  TextHead text_head{};
  bool operator==(const EncoderConfig&) const = default;

  [[nodiscard]] int64_t embedding_width() const {
    return embedding_size > 0 ? embedding_size : hidden_size;
  }
  [[nodiscard]] int64_t max_positions() const { return max_position_embeddings; }
  void set_attention_dropout(double rate) { attention_probs_dropout_prob = rate; }
};

/// The same where the classifier may have a rate of its own.
struct ClassifierDropoutConfig : EncoderConfig {
  std::optional<double> classifier_dropout;  // unset: hidden_dropout_prob
  bool operator==(const ClassifierDropoutConfig&) const = default;
  [[nodiscard]] double classifier_rate() const {
    return classifier_dropout.value_or(hidden_dropout_prob);
  }
  void set_hidden_dropout(double rate) {
    hidden_dropout_prob = rate;
    classifier_dropout.reset();
  }
};

/// All fields but embedding_size and type_vocab_size.
void read_layers(ConfigReader& reader, EncoderConfig& config);
/// Those and type_vocab_size; refuses what asks for other mathematics.
void read_encoder(ConfigReader& reader, EncoderConfig& config);
void read_classifier_dropout(ConfigReader& reader, ClassifierDropoutConfig& config);
/// From vocab_size to max_position_embeddings.
void append_layers(nlohmann::ordered_json& json, const EncoderConfig& config);
/// `classes`: the name of transformers' classes up to "ForSequenceClassification".
[[nodiscard]] nlohmann::ordered_json encoder_json(const EncoderConfig& config,
                                                  const std::string& model_type,
                                                  const std::string& classes);
void append_classifier_dropout(nlohmann::ordered_json& json, const ClassifierDropoutConfig& config);
/// The end of it: head and labels.
void append_encoder_head(nlohmann::ordered_json& json, const EncoderConfig& config,
                         const std::string& classes);
/// Throws Error{bad_config} at `where` for sizes that cannot be, of what read_layers() reads.
void check_layers(const EncoderConfig& config, const std::string& where);
/// Checks all fields, and the head. `dropout`: before the classifier.
void check_encoder(const EncoderConfig& config, double dropout, const std::string& where);
/// What a family's take_facts and init_rule do.
void take_encoder_facts(const ModelFacts& facts, EncoderConfig& config);
[[nodiscard]] InitRule encoder_init_rule(const EncoderConfig& config, const std::string& parameter,
                                         const Shape& shape);
/// Throws Error{bad_config} for a length beyond max_positions (0: any).
void check_batch(BatchShape shape, int64_t max_positions, const std::string& family);

/// Parts of the graph, in the builder's scope at the time.
class EncoderGraph {
 public:
  EncoderGraph(GraphBuilder& builder, const EncoderConfig& config, BatchShape shape, bool training)
      : b_(builder), config_(config), shape_(shape), training_(training) {}

  /// Declares the fed values: ids, mask, types where there is more than one, random numbers where
  /// anything draws some.
  void declare_inputs(SequenceModel& model, bool head_is_random);
  /// The sum of all embeddings, with positions 0 ... T - 1 or `position_ids` i32(B, T).
  [[nodiscard]] ValueId embeddings(ValueId position_ids = kNone);
  /// As BertLayer calls its parts.
  [[nodiscard]] ValueId layer(ValueId x);
  /// What each of the layers gives, in scopes encoder.layer.N.
  [[nodiscard]] std::vector<ValueId> stack(ValueId x);
  /// text_head() of these layers; `own` and `dropout` as there.
  [[nodiscard]] ValueId logits(std::span<const ValueId> layers, double dropout,
                               const std::function<ValueId(ValueId last)>& own,
                               const char* classifier = "classifier");
  /// Self-attention over projections that are called as BertSelfAttention's: query, key, value.
  [[nodiscard]] ValueId attend(ValueId x);
  [[nodiscard]] ValueId drop(ValueId x) {
    return nn::dropout(b_, x, model_->rng, config_.hidden_dropout_prob);
  }
  [[nodiscard]] ValueId activate(ValueId x) {
    return nn::activate(b_, x, *nn::find_activation(config_.hidden_act));
  }
  [[nodiscard]] ValueId norm(const std::string& name, ValueId x) {
    return nn::layer_norm(b_, name, x, config_.layer_norm_eps);
  }
  /// (B, T, width) -> (B, width)
  [[nodiscard]] ValueId first_token(ValueId x);

 private:
  [[nodiscard]] ValueId add_and_normalise(ValueId x, ValueId residual);

  GraphBuilder& b_;
  const EncoderConfig& config_;
  BatchShape shape_;
  bool training_;
  SequenceModel* model_ = nullptr;
};

}  // namespace snug::models
