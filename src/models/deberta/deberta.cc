// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens, H hidden size. The scopes are Hugging Face's module names, so parameters get
// its names.
//
// The original sets padding to zero in three places: in the embeddings, and in what the convolution
// gives and adds to. Keys that are padding are masked in every layer, so a token reads padding by
// the convolution over the embeddings only: there it has to be zero, and nowhere else.
#include "models/deberta/deberta.h"

#include <algorithm>
#include <cmath>

#include "models/encoder.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/conv2d/conv2d.h"
#include "ops/disentangled_attention/disentangled_attention.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"

namespace snug::models {
namespace {

class DebertaGraph {
 public:
  DebertaGraph(GraphBuilder& builder, const DebertaConfig& config, BatchShape shape,
               const BuildOptions& options)
      : b_(builder), config_(config), shape_(shape), training_(options.training) {}

  SequenceModel build() {
    const Shape ids = {shape_.micro_batch, shape_.length};
    model_.input_ids = b_.input(kInputIds, {DType::i32, ids});
    if (config_.type_vocab_size > 0)
      model_.token_type_ids = b_.input(kTokenTypeIds, {DType::i32, ids});
    model_.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids});
    const bool is_of_rows = config_.head.kind == HeadKind::row;
    const bool is_random =
        config_.hidden_dropout_prob > 0 || config_.attention_probs_dropout_prob > 0 ||
        config_.classifier_rate() > 0 || (is_of_rows && config_.pooler_dropout > 0);
    if (training_ && is_random) model_.rng = b_.input(kRandomKey, {DType::i64, {3}});
    {
      const ScopeGuard deberta(b_, "deberta");
      encoder(embeddings());
    }
    model_.logits =
        text_head(b_, {.head = config_.text_head,
                       .kind = config_.head.kind,
                       .num_labels = config_.num_labels,
                       .layers = layers_,
                       .attention_mask = model_.attention_mask,
                       .rng = model_.rng,
                       .dropout = config_.classifier_rate(),
                       .own = [=, this](ValueId x) { return is_of_rows ? pooler(x) : x; }});
    return model_;
  }

 private:
  ValueId embeddings() {
    const ScopeGuard scope(b_, "embeddings");
    const int64_t width = config_.embedding_size > 0 ? config_.embedding_size : config_.hidden_size;
    ValueId x = nn::embedding(b_, "word_embeddings", model_.input_ids, config_.vocab_size, width);
    if (config_.position_biased_input) {
      const ValueId table = b_.parameter(nn::scoped(b_, "position_embeddings.weight"),
                                         {DType::f32, {config_.max_position_embeddings, width}});
      x = add(b_, x, slice(b_, table, 0, 0, shape_.length));
    }
    if (config_.type_vocab_size > 0) {
      x = add(b_, x,
              nn::embedding(b_, "token_type_embeddings", model_.token_type_ids,
                            config_.type_vocab_size, width));
    }
    if (width != config_.hidden_size) {
      const ValueId weight = b_.parameter(nn::scoped(b_, "embed_proj.weight"),
                                          {DType::f32, {config_.hidden_size, width}});
      x = matmul(b_, x, weight, {.transpose_b = true});
    }
    x = nn::layer_norm(b_, "LayerNorm", x, config_.layer_norm_eps);
    if (config_.conv_kernel_size > 0) {
      const ValueId is_there =
          reshape(b_, model_.attention_mask, {shape_.micro_batch, shape_.length, 1});
      x = where(b_, is_there, x, fill(b_, 0, {}));
    }
    return nn::dropout(b_, x, model_.rng, config_.hidden_dropout_prob);
  }

  void encoder(ValueId embedded) {
    const ScopeGuard scope(b_, "encoder");
    if (config_.relative_attention) {
      table_ = b_.parameter(nn::scoped(b_, "rel_embeddings.weight"),
                            {DType::f32, {2 * config_.span(), config_.hidden_size}});
      if (config_.has_relative_norm)
        table_ = nn::layer_norm(b_, "LayerNorm", table_, config_.layer_norm_eps);
    }
    ValueId x = embedded;
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      {
        const ScopeGuard layer(b_, "layer." + std::to_string(i));
        x = feed_forward(attention_block(x));
      }
      if (i == 0 && config_.conv_kernel_size > 0) x = convolution(embedded, x);
      layers_.push_back(x);
    }
  }

  // Over the tokens of the embeddings, as images of one line; added to what the first layer gives.
  ValueId convolution(ValueId embedded, ValueId x) {
    const ScopeGuard scope(b_, "conv");
    const int64_t width = config_.hidden_size;
    const int64_t kernel = config_.conv_kernel_size;
    const int64_t inputs = width / config_.conv_groups;
    ValueId y = kNone;
    {
      const ScopeGuard conv(b_, "conv");
      const ValueId weight =
          b_.parameter(nn::scoped(b_, "weight"), {DType::f32, {width, inputs, kernel}});
      const ValueId bias = b_.parameter(nn::scoped(b_, "bias"), {DType::f32, {width}});
      y = conv2d(b_, reshape(b_, embedded, {shape_.micro_batch, 1, shape_.length, width}),
                 reshape(b_, weight, {width, inputs, 1, kernel}),
                 {.padding = {0, (kernel - 1) / 2}, .groups = config_.conv_groups, .bias = bias});
      y = reshape(b_, y, {shape_.micro_batch, shape_.length, width});
    }
    y = activate(nn::dropout(b_, y, model_.rng, config_.hidden_dropout_prob), config_.conv_act);
    return nn::layer_norm(b_, "LayerNorm", add(b_, x, y), config_.layer_norm_eps);
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
    return add_and_normalise(self_attention(x), x);
  }

  ValueId self_attention(ValueId x) {
    const ScopeGuard scope(b_, "self");
    const int64_t width = config_.hidden_size;
    const nn::LinearMap query = nn::linear_map(b_, "query_proj", width, width);
    const nn::LinearMap key = nn::linear_map(b_, "key_proj", width, width);
    const ValueId q = nn::apply(b_, query, x);
    const ValueId k = nn::apply(b_, key, x);
    const ValueId v = nn::linear(b_, "value_proj", x, width);
    const double rate = training_ ? config_.attention_probs_dropout_prob : 0;
    if (!config_.relative_attention) {
      // The divisor counts the kinds of scores that are asked for, whether there are any or not.
      const ValueId scaled =
          position_kinds() == 0 ? q : scale(b_, q, 1 / std::sqrt(1.0 + position_kinds()));
      return attention(b_, scaled, k, v,
                       {.heads = config_.num_attention_heads,
                        .mask = model_.attention_mask,
                        .rng = model_.rng,
                        .rate = rate})
          .o;
    }
    const ValueId table = distances();
    const auto project = [&](bool is_used, const nn::LinearMap& shared,
                             const char* own) -> ValueId {
      if (!is_used) return kNone;
      return config_.share_att_key ? nn::apply(b_, shared, table)
                                   : nn::linear(b_, own, table, width);
    };
    const ValueId pos_key = project(config_.content_to_position, key, "pos_key_proj");
    const ValueId pos_query = project(config_.position_to_content, query, "pos_query_proj");
    return disentangled_attention(b_, q, k, v,
                                  {.heads = config_.num_attention_heads,
                                   .pos_key = pos_key,
                                   .pos_query = pos_query,
                                   .buckets = std::max<int64_t>(config_.position_buckets, 0),
                                   .max_distance = config_.furthest(),
                                   .mask = model_.attention_mask,
                                   .rng = model_.rng,
                                   .rate = rate});
  }

  [[nodiscard]] int position_kinds() const {
    return (config_.content_to_position ? 1 : 0) + (config_.position_to_content ? 1 : 0);
  }

  // The table as one layer sees it: a mask of its own, the same for all rows of the batch.
  ValueId distances() {
    if (model_.rng == kNone || config_.hidden_dropout_prob == 0) return table_;
    return dropout(b_, table_, model_.rng, config_.hidden_dropout_prob, -1);
  }

  ValueId feed_forward(ValueId x) {
    ValueId inner = kNone;
    {
      const ScopeGuard scope(b_, "intermediate");
      inner = activate(nn::linear(b_, "dense", x, config_.intermediate_size), config_.hidden_act);
    }
    return add_and_normalise(inner, x);
  }

  ValueId pooler(ValueId x) {
    const ScopeGuard scope(b_, "pooler");
    const ValueId first = slice(b_, x, 1, 0, 1);
    ValueId rows = reshape(b_, first, {shape_.micro_batch, config_.hidden_size});
    rows = nn::dropout(b_, rows, model_.rng, config_.pooler_dropout);
    return activate(nn::linear(b_, "dense", rows, config_.hidden_size), config_.pooler_hidden_act);
  }

  ValueId activate(ValueId x, const std::string& name) {
    return nn::activate(b_, x, nn::find_activation(name).value());
  }

  GraphBuilder& b_;
  const DebertaConfig& config_;
  BatchShape shape_;
  bool training_;
  SequenceModel model_;
  std::vector<ValueId> layers_;  // what each gives
  ValueId table_ = kNone;        // of the distances, normalised
};

}  // namespace

SequenceModel build_deberta_classifier(GraphBuilder& builder, const DebertaConfig& config,
                                       BatchShape shape, const BuildOptions& options) {
  validate(config, "deberta");
  check_batch(shape, config.max_positions(), "deberta");
  return DebertaGraph(builder, config, shape, options).build();
}

InitRule deberta_init_rule(const DebertaConfig& config, const std::string& parameter,
                           const Shape& /*shape*/) {
  if (parameter.ends_with(".bias")) return {};
  if (parameter.ends_with("LayerNorm.weight")) return {.constant = 1};
  const bool is_words = parameter.ends_with("word_embeddings.weight");
  return {.deviation = config.initializer_range, .zero_row = is_words ? config.pad_token_id : -1};
}

}  // namespace snug::models
