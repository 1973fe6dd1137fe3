// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens, E embedding size.
#include "models/mlp/mlp.h"

#include <cmath>

#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/reduce/reduce.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr double kEmbeddingDeviation = 0.1;

// The sum over the tokens that are there, divided by their number; by 1 in a row without tokens.
ValueId mean_of(GraphBuilder& b, ValueId sum, ValueId is_there) {
  const ValueId count = reduce_sum(b, is_there, {1}, true);
  const ValueId one = fill(b, 1, {});
  const ValueId divisor = where(b, greater(b, count, one), count, one);
  return div(b, sum, divisor);
}

}  // namespace

SequenceModel build_mlp_classifier(GraphBuilder& builder, const MlpConfig& config, BatchShape shape,
                                   const BuildOptions& options) {
  validate(config, "mlp");
  if (shape.micro_batch < 1 || shape.length < 1) {
    throw Error(ErrorCode::bad_config, "mlp", "a batch needs at least one row and one token");
  }
  SequenceModel model;
  const Shape ids = {shape.micro_batch, shape.length};
  model.input_ids = builder.input(kInputIds, {DType::i32, ids});
  model.attention_mask = builder.input(kAttentionMask, {DType::boolean, ids});
  if (options.training && config.dropout > 0)
    model.rng = builder.input(kRandomKey, {DType::i64, {3}});
  const int64_t width =
      config.embedding_size > 0 ? config.embedding_size : config.hidden_sizes.front();
  ValueId is_there = kNone;
  {
    const ScopeGuard scope(builder, "embeddings");
    is_there = cast(builder, model.attention_mask, DType::f32);
  }
  ValueId x =
      nn::embedding_sum(builder, "embeddings", model.input_ids, is_there, config.vocab_size, width);
  {
    const ScopeGuard scope(builder, "embeddings");
    x = nn::dropout(builder, mean_of(builder, x, is_there), model.rng, config.dropout);
  }
  for (size_t i = 0; i < config.hidden_sizes.size(); ++i) {
    const std::string name = "layers." + std::to_string(i);
    x = nn::linear(builder, name, x, config.hidden_sizes[i]);
    const ScopeGuard scope(builder, name);
    x = nn::dropout(builder, relu(builder, x), model.rng, config.dropout);
  }
  model.logits = nn::linear(builder, "classifier", x, config.num_labels);
  return model;
}

InitRule mlp_init_rule(const MlpConfig& config, const std::string& parameter, const Shape& shape) {
  if (parameter.ends_with(".bias")) return {};
  if (parameter == "embeddings.weight")
    return {.deviation = kEmbeddingDeviation, .zero_row = config.pad_token_id};
  const double gain = parameter == "classifier.weight" ? 1 : 2;
  return {.deviation = std::sqrt(gain / static_cast<double>(shape.back()))};
}

}  // namespace snug::models
