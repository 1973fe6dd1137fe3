// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/albert/albert.h"

#include "ops/elementwise/elementwise.h"

namespace snug::models {
namespace {

ValueId attention_block(GraphBuilder& b, EncoderGraph& encoder, const AlbertConfig& config,
                        ValueId x) {
  const ScopeGuard scope(b, "attention");
  const ValueId y = nn::linear(b, "dense", encoder.attend(x), config.hidden_size);
  return encoder.norm("LayerNorm", add(b, x, encoder.drop(y)));
}

ValueId layer(GraphBuilder& b, EncoderGraph& encoder, const AlbertConfig& config, ValueId x) {
  x = attention_block(b, encoder, config, x);
  const ValueId inner = encoder.activate(nn::linear(b, "ffn", x, config.intermediate_size));
  const ValueId y = nn::linear(b, "ffn_output", inner, config.hidden_size);
  return encoder.norm("full_layer_layer_norm", add(b, y, x));
}

}  // namespace

SequenceModel build_albert_classifier(GraphBuilder& b, const AlbertConfig& config, BatchShape shape,
                                      const BuildOptions& options) {
  validate(config, "albert");
  check_batch(shape, config.max_positions(), "albert");
  EncoderGraph encoder(b, config, shape, options.training);
  SequenceModel model;
  encoder.declare_inputs(model, config.classifier_dropout_prob > 0);
  std::vector<ValueId> layers;
  {
    const ScopeGuard body(b, "albert");
    ValueId x = kNone;
    {
      const ScopeGuard scope(b, "embeddings");
      x = encoder.embeddings();
    }
    const ScopeGuard scope(b, "encoder");
    x = nn::linear(b, "embedding_hidden_mapping_in", x, config.hidden_size);
    const bool shared_before = b.shares_weights();
    b.set_shares_weights(true);
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      // transformers divides in floating point: 18 layers in 14 groups have one where a fraction
      // of whole numbers has another.
      const auto group = static_cast<int64_t>(static_cast<double>(i) /
                                              (static_cast<double>(config.num_hidden_layers) /
                                               static_cast<double>(config.num_hidden_groups)));
      for (int64_t inner = 0; inner < config.inner_group_num; ++inner) {
        const ScopeGuard one(b, "albert_layer_groups." + std::to_string(group) + ".albert_layers." +
                                    std::to_string(inner));
        x = layer(b, encoder, config, x);
      }
      layers.push_back(x);
    }
    b.set_shares_weights(shared_before);
  }
  const auto head = [&](ValueId x) {
    if (config.head.kind != HeadKind::row) return x;
    return tanh(b, nn::linear(b, "albert.pooler", encoder.first_token(x), config.hidden_size));
  };
  model.logits = encoder.logits(layers, config.classifier_dropout_prob, head);
  return model;
}

}  // namespace snug::models
