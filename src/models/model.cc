// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include "ops/loss/loss.h"

namespace snug::models {

void finish_classifier(GraphBuilder& builder, SequenceModel& model, const BuildOptions& options) {
  builder.mark_output(model.logits, kLogits);
  if (!options.training) return;
  const int64_t rows = builder.shape(model.logits)[0];
  model.labels = builder.input(kLabels, {DType::i32, {rows}});
  model.row_weights = builder.input(kRowWeights, {DType::f32, {rows}});
  model.inv_total = builder.input(kInvTotal, {DType::f32, {}});
  const ScopeGuard scope(builder, "loss");
  model.loss = softmax_cross_entropy(builder, model.logits, model.labels, model.row_weights,
                                     model.inv_total, {.label_smoothing = options.label_smoothing})
                   .loss;
  builder.mark_output(model.loss, kLoss);
}

}  // namespace snug::models
