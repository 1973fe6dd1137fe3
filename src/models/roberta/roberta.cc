// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens. The scopes are Hugging Face's module names, so parameters get its names.
#include "models/roberta/roberta.h"

#include "ops/elementwise/elementwise.h"
#include "ops/token_positions/token_positions.h"

namespace snug::models {

SequenceModel build_roberta_classifier(GraphBuilder& b, const RobertaConfig& config,
                                       BatchShape shape, const BuildOptions& options) {
  validate(config, "roberta");
  check_batch(shape, config.max_positions(), "roberta");
  EncoderGraph encoder(b, config, shape, options.training);
  SequenceModel model;
  encoder.declare_inputs(model, config.classifier_rate() > 0);
  std::vector<ValueId> layers;
  {
    const ScopeGuard body(b, "roberta");
    ValueId x = kNone;
    {
      const ScopeGuard scope(b, "embeddings");
      x = encoder.embeddings(token_positions(b, model.input_ids, config.pad_token_id));
    }
    layers = encoder.stack(x);
  }
  const bool is_of_rows = config.head.kind == HeadKind::row;
  const auto head = [&](ValueId x) {
    if (!is_of_rows) return x;
    x = nn::dropout(b, encoder.first_token(x), model.rng, config.classifier_rate());
    return tanh(b, nn::linear(b, "classifier.dense", x, config.hidden_size));
  };
  model.logits = encoder.logits(layers, config.classifier_rate(), head,
                                is_of_rows ? "classifier.out_proj" : "classifier");
  return model;
}

}  // namespace snug::models
