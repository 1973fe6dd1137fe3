// SPDX-License-Identifier: Apache-2.0
// B rows, T tokens, E embedding size, H hidden size.
//
// Design: step by step through all layers, so that between two steps nothing crosses but the states
// h and c of every layer: that is where the planner cuts. Token ids, mask and embedding of a step
// are made in the step and made again with it, which costs next to nothing; embeddings of all
// tokens at once would live for the whole pass.
#include "models/lstm/lstm.h"

#include <cmath>

#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/fed_names.h"
#include "ops/lstm/lstm.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::models {
namespace {

class LstmGraph {
 public:
  LstmGraph(GraphBuilder& builder, const LstmConfig& config, BatchShape shape,
            const BuildOptions& options)
      : b_(builder), config_(config), shape_(shape) {
    const Shape ids = {shape.micro_batch, shape.length};
    model_.input_ids = b_.input(kInputIds, {DType::i32, ids});
    model_.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids});
    if (options.training && config.dropout > 0)
      model_.rng = b_.input(kRandomKey, {DType::i64, {3}});
  }

  SequenceModel build() {
    // Fixed before the steps are counted: a bucket of another length drops the same.
    const int64_t last_ordinal = b_.next_random_ordinal();
    declare_weights();
    const ValueId zero = fill(b_, 0, {shape_.micro_batch, config_.hidden_size});
    std::vector<LstmState> states(layers_.size(), {.h = zero, .c = zero});
    for (int64_t t = 0; t < shape_.length; ++t) {
      const ScopeGuard scope(b_, "lstm.step." + std::to_string(t));
      step(t, states);
    }
    ValueId x = states.back().h;
    if (model_.rng != kNone) {
      x = b_.op1("dropout", {x, model_.rng},
                 {{"rate", config_.dropout}, {"ordinal", last_ordinal}});
    }
    model_.logits = nn::linear(b_, "classifier", x, config_.num_labels);
    return model_;
  }

 private:
  struct Layer {
    ValueId from_input = kNone;  // (4H, E or H)
    ValueId from_state = kNone;  // (4H, H)
    ValueId bias = kNone;        // (4H): both of PyTorch's in one, added once
  };

  void declare_weights() {
    int64_t width = config_.embedding_size > 0 ? config_.embedding_size : config_.hidden_size;
    table_ = b_.parameter("embeddings.weight", {DType::f32, {config_.vocab_size, width}});
    const int64_t hidden = config_.hidden_size;
    const ScopeGuard scope(b_, "lstm");
    for (int64_t l = 0; l < config_.num_hidden_layers; ++l, width = hidden) {
      const auto declare = [&](const char* name, Shape shape) {
        return b_.parameter(nn::scoped(b_, name + std::string("_l") + std::to_string(l)),
                            {DType::f32, std::move(shape)});
      };
      Layer& layer = layers_.emplace_back();
      layer.from_input = declare("weight_ih", {4 * hidden, width});
      layer.from_state = declare("weight_hh", {4 * hidden, hidden});
      const ValueId bias = declare("bias_ih", {4 * hidden});
      layer.bias = add(b_, bias, declare("bias_hh", {4 * hidden}));
    }
  }

  void step(int64_t t, std::vector<LstmState>& states) {
    const auto at_step = [&](ValueId of_tokens) {
      return reshape(b_, slice(b_, of_tokens, 1, t, t + 1), {shape_.micro_batch});
    };
    const ValueId mask = at_step(model_.attention_mask);
    ValueId x = embedding(b_, table_, at_step(model_.input_ids));
    for (size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      if (l > 0) x = nn::dropout(b_, x, model_.rng, config_.dropout);
      const ValueId from_x =
          matmul(b_, x, layer.from_input, {.transpose_b = true, .bias = layer.bias});
      const ValueId gates =
          matmul(b_, states[l].h, layer.from_state, {.transpose_b = true, .bias = from_x});
      states[l] = lstm_cell(b_, gates, states[l], mask);
      x = states[l].h;
    }
  }

  GraphBuilder& b_;
  const LstmConfig& config_;
  BatchShape shape_;
  SequenceModel model_;
  ValueId table_ = kNone;
  std::vector<Layer> layers_;
};

}  // namespace

SequenceModel build_lstm_classifier(GraphBuilder& builder, const LstmConfig& config,
                                    BatchShape shape, const BuildOptions& options) {
  validate(config, "lstm");
  if (shape.micro_batch < 1 || shape.length < 1) {
    throw Error(ErrorCode::bad_config, "lstm", "a batch needs at least one row and one token");
  }
  return LstmGraph(builder, config, shape, options).build();
}

InitRule lstm_init_rule(const LstmConfig& config, const std::string& parameter,
                        const Shape& shape) {
  if (parameter == "embeddings.weight") return {.deviation = 1, .zero_row = config.pad_token_id};
  if (parameter == "classifier.bias") return {};
  if (parameter == "classifier.weight")
    return {.deviation = std::sqrt(1.0 / static_cast<double>(shape.back()))};
  return {.deviation = std::sqrt(1.0 / static_cast<double>(3 * config.hidden_size))};
}

}  // namespace snug::models
