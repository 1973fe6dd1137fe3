// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/modernbert/modernbert.h"

#include <cmath>

#include "models/encoder.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/geglu/geglu.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/rotary/rotary.h"
#include "ops/shape/shape.h"
#include "ops/token_pool/token_pool.h"

namespace snug::models {
namespace {

class ModernbertGraph {
 public:
  ModernbertGraph(GraphBuilder& builder, const ModernbertConfig& config, BatchShape shape,
                  const BuildOptions& options)
      : b_(builder), config_(config), shape_(shape), training_(options.training) {}

  SequenceModel build() {
    const Shape ids = {shape_.micro_batch, shape_.length};
    model_.input_ids = b_.input(kInputIds, {DType::i32, ids});
    model_.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids});
    const bool is_random = config_.embedding_dropout > 0 || config_.attention_dropout > 0 ||
                           config_.mlp_dropout > 0 || config_.classifier_dropout > 0;
    if (training_ && is_random) model_.rng = b_.input(kRandomKey, {DType::i64, {3}});
    std::vector<ValueId> layers;
    {
      const ScopeGuard body(b_, "model");
      ValueId x = embeddings();
      for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
        const ScopeGuard layer(b_, "layers." + std::to_string(i));
        x = layers.emplace_back(feed_forward(attention_block(x, i)));
      }
      layers.back() = norm("final_norm", x);
    }
    model_.logits = text_head(b_, {.head = config_.text_head,
                                   .kind = config_.head.kind,
                                   .num_labels = config_.num_labels,
                                   .layers = layers,
                                   .attention_mask = model_.attention_mask,
                                   .rng = model_.rng,
                                   .dropout = config_.classifier_dropout,
                                   .own = [this](ValueId x) { return prediction_head(x); }});
    return model_;
  }

 private:
  ValueId linear(const std::string& name, ValueId x, int64_t out_features, bool has_bias) {
    if (has_bias) return nn::linear(b_, name, x, out_features);
    const ScopeGuard scope(b_, name);
    const ValueId weight =
        b_.parameter(nn::scoped(b_, "weight"), {DType::f32, {out_features, b_.shape(x).back()}});
    return matmul(b_, x, weight, {.transpose_b = true});
  }

  // Without a bias the norm's offset is a constant 0.
  ValueId norm(const std::string& name, ValueId x) {
    if (config_.norm_bias) return nn::layer_norm(b_, name, x, config_.norm_eps);
    const ScopeGuard scope(b_, name);
    const Shape width = {b_.shape(x).back()};
    const ValueId weight = b_.parameter(nn::scoped(b_, "weight"), {DType::f32, width});
    return layer_norm(b_, x, weight, fill(b_, 0, width), config_.norm_eps).y;
  }

  ValueId embeddings() {
    const ScopeGuard scope(b_, "embeddings");
    const ValueId words = nn::embedding(b_, "tok_embeddings", model_.input_ids, config_.vocab_size,
                                        config_.hidden_size);
    return nn::dropout(b_, norm("norm", words), model_.rng, config_.embedding_dropout);
  }

  ValueId attention_block(ValueId x, int64_t layer) {
    const bool is_local = config_.is_local_layer(layer);
    // What goes into the first layer is normalised already.
    const ValueId read = layer == 0 ? x : norm("attn_norm", x);
    const ScopeGuard scope(b_, "attn");
    const ValueId packed = linear("Wqkv", read, 3 * config_.hidden_size, config_.attention_bias);
    const RotaryOutputs parts =
        rotary_qkv(b_, packed, config_.num_attention_heads,
                   is_local ? config_.local_rope_theta : config_.global_rope_theta);
    const ValueId context = attention(b_, parts.q, parts.k, parts.v,
                                      {.heads = config_.num_attention_heads,
                                       .mask = model_.attention_mask,
                                       .rng = model_.rng,
                                       .rate = training_ ? config_.attention_dropout : 0,
                                       .window = is_local ? config_.local_attention / 2 : 0})
                                .o;
    const ValueId y = linear("Wo", context, config_.hidden_size, config_.attention_bias);
    return add(b_, x, nn::dropout(b_, y, model_.rng, config_.attention_dropout));
  }

  ValueId feed_forward(ValueId x) {
    const ValueId both =
        linear("mlp.Wi", norm("mlp_norm", x), 2 * config_.intermediate_size, config_.mlp_bias);
    const bool is_tanh =
        *nn::find_activation(config_.hidden_activation) == nn::Activation::gelu_tanh;
    const ValueId inner = nn::dropout(b_, geglu(b_, both, is_tanh ? "tanh" : "none"), model_.rng,
                                      config_.mlp_dropout);
    return add(b_, x, linear("mlp.Wo", inner, config_.hidden_size, config_.mlp_bias));
  }

  // Reads a row's first token or the mean of its tokens; every token where tokens have labels.
  ValueId prediction_head(ValueId x) {
    if (config_.head.kind == HeadKind::row) {
      const Shape rows = {shape_.micro_batch, config_.hidden_size};
      x = config_.has_mean_pooling ? masked_mean(b_, x, model_.attention_mask)
                                   : reshape(b_, slice(b_, x, 1, 0, 1), rows);
    }
    const ScopeGuard scope(b_, "head");
    x = linear("dense", x, config_.hidden_size, config_.classifier_bias);
    return norm("norm", nn::activate(b_, x, *nn::find_activation(config_.classifier_activation)));
  }

  GraphBuilder& b_;
  const ModernbertConfig& config_;
  BatchShape shape_;
  bool training_;
  SequenceModel model_;
};

}  // namespace

SequenceModel build_modernbert_classifier(GraphBuilder& builder, const ModernbertConfig& config,
                                          BatchShape shape, const BuildOptions& options) {
  validate(config, "modernbert");
  check_batch(shape, config.max_position_embeddings, "modernbert");
  return ModernbertGraph(builder, config, shape, options).build();
}

InitRule modernbert_init_rule(const ModernbertConfig& config, const std::string& parameter,
                              const Shape& shape) {
  if (parameter.ends_with(".bias")) return {};
  if (shape.size() == 1) return InitRule::ones();  // a norm's weight
  const auto layers = static_cast<double>(config.num_hidden_layers);
  InitRule rule = InitRule::normal(config.initializer_range);
  rule.cutoff = config.initializer_cutoff_factor;
  if (parameter.ends_with(".Wo.weight") || parameter == "head.dense.weight")
    rule.deviation = config.initializer_range / std::sqrt(2 * layers);
  if (parameter == "classifier.weight")
    rule.deviation = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  if (parameter.ends_with("tok_embeddings.weight")) rule.zero_row = config.pad_token_id;
  return rule;
}

}  // namespace snug::models
