// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/electra/electra.h"

#include "ops/elementwise/elementwise.h"

namespace snug::models {

SequenceModel build_electra_classifier(GraphBuilder& b, const ElectraConfig& config,
                                       BatchShape shape, const BuildOptions& options) {
  validate(config, "electra");
  check_batch(shape, config.max_positions(), "electra");
  EncoderGraph encoder(b, config, shape, options.training);
  SequenceModel model;
  encoder.declare_inputs(model, config.classifier_rate() > 0);
  std::vector<ValueId> layers;
  {
    const ScopeGuard body(b, "electra");
    ValueId x = kNone;
    {
      const ScopeGuard scope(b, "embeddings");
      x = encoder.embeddings();
    }
    if (config.embedding_size != config.hidden_size)
      x = nn::linear(b, "embeddings_project", x, config.hidden_size);
    layers = encoder.stack(x);
  }
  const bool is_of_rows = config.head.kind == HeadKind::row;
  const auto head = [&](ValueId x) {
    if (!is_of_rows) return x;
    x = nn::dropout(b, encoder.first_token(x), model.rng, config.classifier_rate());
    return gelu(b, nn::linear(b, "classifier.dense", x, config.hidden_size), "none");
  };
  model.logits = encoder.logits(layers, config.classifier_rate(), head,
                                is_of_rows ? "classifier.out_proj" : "classifier");
  return model;
}

}  // namespace snug::models
