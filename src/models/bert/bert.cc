// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/bert/bert.h"

#include "models/text_head.h"
#include "ops/elementwise/elementwise.h"

namespace snug::models {

SequenceModel build_bert_classifier(GraphBuilder& b, const BertConfig& config, BatchShape shape,
                                    const BuildOptions& options) {
  validate(config, "bert");
  check_batch(shape, config.max_position_embeddings, "bert");
  EncoderGraph encoder(b, config, shape, options.training);
  SequenceModel model;
  encoder.declare_inputs(model, config.classifier_rate() > 0);
  std::vector<ValueId> layers;
  {
    const ScopeGuard bert(b, "bert");
    ValueId x = kNone;
    {
      const ScopeGuard scope(b, "embeddings");
      x = encoder.embeddings();
    }
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const ScopeGuard layer(b, "encoder.layer." + std::to_string(i));
      x = layers.emplace_back(encoder.layer(x));
    }
  }
  const auto pooler = [&](ValueId x) {
    if (config.head.kind != HeadKind::row) return x;
    const ScopeGuard scope(b, "bert.pooler");
    return tanh(b, nn::linear(b, "dense", encoder.first_token(x), config.hidden_size));
  };
  model.logits = text_head(b, {.head = config.text_head,
                               .kind = config.head.kind,
                               .num_labels = config.num_labels,
                               .layers = layers,
                               .attention_mask = model.attention_mask,
                               .rng = model.rng,
                               .dropout = config.classifier_rate(),
                               .own = pooler});
  return model;
}

}  // namespace snug::models
