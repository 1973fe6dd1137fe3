// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens, H hidden size. The scopes are Hugging Face's module names, so parameters get
// its names.
#include "models/bert/bert.h"

#include "models/text_head.h"

#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::models {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

class BertGraph {
 public:
  BertGraph(GraphBuilder& builder, const BertConfig& config, BatchShape shape,
            const BuildOptions& options)
      : b_(builder),
        config_(config),
        shape_(shape),
        training_(options.training),
        activation_(nn::find_activation(config.hidden_act).value()) {}

  SequenceModel build() {
    const TensorType ids = {DType::i32, {shape_.micro_batch, shape_.length}};
    model_.input_ids = b_.input(kInputIds, ids);
    model_.token_type_ids = b_.input(kTokenTypeIds, ids);
    model_.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids.shape});
    const bool is_random = config_.hidden_dropout_prob > 0 ||
                           config_.attention_probs_dropout_prob > 0 ||
                           config_.classifier_rate() > 0;
    if (training_ && is_random) model_.rng = b_.input(kRng, {DType::i64, {3}});
    std::vector<ValueId> layers;
    {
      const ScopeGuard bert(b_, "bert");
      ValueId x = embeddings();
      for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
        const ScopeGuard layer(b_, "encoder.layer." + std::to_string(i));
        x = layers.emplace_back(feed_forward(attention_block(x)));
      }
    }
    model_.logits = text_head(b_, {.head = config_.text_head,
                                   .kind = config_.head.kind,
                                   .num_labels = config_.num_labels,
                                   .layers = layers,
                                   .attention_mask = model_.attention_mask,
                                   .rng = model_.rng,
                                   .dropout = config_.classifier_rate(),
                                   .own = [this](ValueId x) {
                                     return config_.head.kind == HeadKind::row ? pooler(x) : x;
                                   }});
    return model_;
  }

 private:
  // Words plus types plus positions 0 ... T - 1, the same rows for every sample.
  ValueId embeddings() {
    const ScopeGuard scope(b_, "embeddings");
    const int64_t width = config_.hidden_size;
    const ValueId words =
        nn::embedding(b_, "word_embeddings", model_.input_ids, config_.vocab_size, width);
    const ValueId types = nn::embedding(b_, "token_type_embeddings", model_.token_type_ids,
                                        config_.type_vocab_size, width);
    ValueId x = add(b_, words, types);
    const ValueId table = b_.parameter(nn::scoped(b_, "position_embeddings.weight"),
                                       {DType::f32, {config_.max_position_embeddings, width}});
    x = add(b_, x, slice(b_, table, 0, 0, shape_.length));
    x = nn::layer_norm(b_, "LayerNorm", x, config_.layer_norm_eps);
    return nn::dropout(b_, x, model_.rng, config_.hidden_dropout_prob);
  }

  // dense, dropout, residual, layer norm.
  ValueId add_and_normalise(ValueId x, ValueId residual) {
    const ScopeGuard scope(b_, "output");
    x = nn::linear(b_, "dense", x, config_.hidden_size);
    x = nn::dropout(b_, x, model_.rng, config_.hidden_dropout_prob);
    return nn::layer_norm(b_, "LayerNorm", add(b_, x, residual), config_.layer_norm_eps);
  }

  ValueId attention_block(ValueId x) {
    const ScopeGuard scope(b_, "attention");
    ValueId context = kNone;
    {
      const ScopeGuard self(b_, "self");
      const ValueId q = nn::linear(b_, "query", x, config_.hidden_size);
      const ValueId k = nn::linear(b_, "key", x, config_.hidden_size);
      const ValueId v = nn::linear(b_, "value", x, config_.hidden_size);
      const double rate = training_ ? config_.attention_probs_dropout_prob : 0;
      context = attention(b_, q, k, v,
                          {.heads = config_.num_attention_heads,
                           .mask = model_.attention_mask,
                           .rng = model_.rng,
                           .rate = rate})
                    .o;
    }
    return add_and_normalise(context, x);
  }

  ValueId feed_forward(ValueId x) {
    ValueId inner = kNone;
    {
      const ScopeGuard scope(b_, "intermediate");
      inner = nn::activate(b_, nn::linear(b_, "dense", x, config_.intermediate_size), activation_);
    }
    return add_and_normalise(inner, x);
  }

  ValueId pooler(ValueId x) {
    const ScopeGuard scope(b_, "bert.pooler");
    const ValueId first = slice(b_, x, 1, 0, 1);
    const ValueId rows = reshape(b_, first, {shape_.micro_batch, config_.hidden_size});
    return tanh(b_, nn::linear(b_, "dense", rows, config_.hidden_size));
  }

  GraphBuilder& b_;
  const BertConfig& config_;
  BatchShape shape_;
  bool training_;
  nn::Activation activation_;
  SequenceModel model_;
};

}  // namespace

SequenceModel build_bert_classifier(GraphBuilder& builder, const BertConfig& config,
                                    BatchShape shape, const BuildOptions& options) {
  validate(config, "bert");
  if (shape.length > config.max_position_embeddings) {
    throw Error(ErrorCode::bad_config, "max_seq_length",
                std::to_string(shape.length) + " tokens are more than the model's " +
                    std::to_string(config.max_position_embeddings) + " positions",
                "at most " + std::to_string(config.max_position_embeddings));
  }
  if (shape.micro_batch < 1 || shape.length < 1) {
    throw Error(ErrorCode::bad_config, "bert", "a batch needs at least one row and one token");
  }
  return BertGraph(builder, config, shape, options).build();
}

InitRule bert_init_rule(const BertConfig& config, const std::string& parameter) {
  if (ends_with(parameter, ".bias")) return {};
  if (ends_with(parameter, "LayerNorm.weight")) return {.constant = 1};
  const bool is_words = ends_with(parameter, "word_embeddings.weight");
  return {.deviation = config.initializer_range, .zero_row = is_words ? config.pad_token_id : -1};
}

}  // namespace snug::models
