// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/distilbert/distilbert.h"

#include "models/encoder.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/shape/shape.h"

namespace snug::models {
namespace {

constexpr double kNormEps = 1e-12;  // the original's; no field of its config.json

class DistilbertGraph {
 public:
  DistilbertGraph(GraphBuilder& builder, const DistilbertConfig& config, BatchShape shape,
                  const BuildOptions& options)
      : b_(builder),
        config_(config),
        shape_(shape),
        training_(options.training),
        activation_(nn::find_activation(config.activation).value()) {}

  SequenceModel build() {
    const Shape ids = {shape_.micro_batch, shape_.length};
    model_.input_ids = b_.input(kInputIds, {DType::i32, ids});
    model_.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids});
    const bool is_random =
        config_.dropout > 0 || config_.attention_dropout > 0 || config_.classifier_rate() > 0;
    if (training_ && is_random) model_.rng = b_.input(kRandomKey, {DType::i64, {3}});
    std::vector<ValueId> layers;
    {
      const ScopeGuard distilbert(b_, "distilbert");
      ValueId x = embeddings();
      for (int64_t i = 0; i < config_.n_layers; ++i) {
        const ScopeGuard layer(b_, "transformer.layer." + std::to_string(i));
        x = layers.emplace_back(feed_forward(attention_block(x)));
      }
    }
    model_.logits =
        text_head(b_, {.head = config_.text_head,
                       .kind = config_.head.kind,
                       .num_labels = config_.num_labels,
                       .layers = layers,
                       .attention_mask = model_.attention_mask,
                       .rng = model_.rng,
                       .dropout = config_.classifier_rate(),
                       .own = [this](ValueId x) {
                         return config_.head.kind == HeadKind::row ? pre_classifier(x) : x;
                       }});
    return model_;
  }

 private:
  // Words plus positions 0 ... T - 1, the same rows for every sample.
  ValueId embeddings() {
    const ScopeGuard scope(b_, "embeddings");
    const ValueId words =
        nn::embedding(b_, "word_embeddings", model_.input_ids, config_.vocab_size, config_.dim);
    const ValueId table =
        b_.parameter(nn::scoped(b_, "position_embeddings.weight"),
                     {DType::f32, {config_.max_position_embeddings, config_.dim}});
    const ValueId x = add(b_, words, slice(b_, table, 0, 0, shape_.length));
    return nn::dropout(b_, nn::layer_norm(b_, "LayerNorm", x, kNormEps), model_.rng,
                       config_.dropout);
  }

  ValueId attention_block(ValueId x) {
    ValueId y = kNone;
    {
      const ScopeGuard scope(b_, "attention");
      const ValueId q = nn::linear(b_, "q_lin", x, config_.dim);
      const ValueId k = nn::linear(b_, "k_lin", x, config_.dim);
      const ValueId v = nn::linear(b_, "v_lin", x, config_.dim);
      const ValueId context = attention(b_, q, k, v,
                                        {.heads = config_.n_heads,
                                         .mask = model_.attention_mask,
                                         .rng = model_.rng,
                                         .rate = training_ ? config_.attention_dropout : 0})
                                  .o;
      y = nn::linear(b_, "out_lin", context, config_.dim);
    }
    return nn::layer_norm(b_, "sa_layer_norm", add(b_, y, x), kNormEps);
  }

  ValueId feed_forward(ValueId x) {
    ValueId y = kNone;
    {
      const ScopeGuard scope(b_, "ffn");
      y = nn::activate(b_, nn::linear(b_, "lin1", x, config_.hidden_dim), activation_);
      y = nn::dropout(b_, nn::linear(b_, "lin2", y, config_.dim), model_.rng, config_.dropout);
    }
    return nn::layer_norm(b_, "output_layer_norm", add(b_, y, x), kNormEps);
  }

  ValueId pre_classifier(ValueId x) {
    const ValueId first = reshape(b_, slice(b_, x, 1, 0, 1), {shape_.micro_batch, config_.dim});
    return relu(b_, nn::linear(b_, "pre_classifier", first, config_.dim));
  }

  GraphBuilder& b_;
  const DistilbertConfig& config_;
  BatchShape shape_;
  bool training_;
  nn::Activation activation_;
  SequenceModel model_;
};

}  // namespace

SequenceModel build_distilbert_classifier(GraphBuilder& builder, const DistilbertConfig& config,
                                          BatchShape shape, const BuildOptions& options) {
  validate(config, "distilbert");
  check_batch(shape, config.max_position_embeddings, "distilbert");
  return DistilbertGraph(builder, config, shape, options).build();
}

InitRule distilbert_init_rule(const DistilbertConfig& config, const std::string& parameter,
                              const Shape& shape) {
  if (parameter.ends_with(".bias")) return {};
  if (shape.size() == 1) return {.constant = 1};  // a norm's weight
  const bool is_words = parameter.ends_with("word_embeddings.weight");
  return {.deviation = config.initializer_range, .zero_row = is_words ? config.pad_token_id : -1};
}

}  // namespace snug::models
