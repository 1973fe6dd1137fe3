// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/bert/bert.h"

#include "ops/elementwise/elementwise.h"

namespace snug::models {

SequenceModel build_bert_classifier(GraphBuilder& b, const BertConfig& config, BatchShape shape,
                                    const BuildOptions& options) {
  validate(config, "bert");
  check_batch(shape, config.max_positions(), "bert");
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
    layers = encoder.stack(x);
  }
  const auto pooler = [&](ValueId x) {
    if (config.head.kind != HeadKind::row) return x;
    const ScopeGuard scope(b, "bert.pooler");
    return tanh(b, nn::linear(b, "dense", encoder.first_token(x), config.hidden_size));
  };
  model.logits = encoder.logits(layers, config.classifier_rate(), pooler);
  return model;
}

}  // namespace snug::models
