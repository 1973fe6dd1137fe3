// SPDX-License-Identifier: Apache-2.0
#include "models/encoder.h"

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/config_reader.h"
#include "models/text_family.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/fed_names.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::models {

void read_layers(ConfigReader& reader, EncoderConfig& config) {
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("hidden_size", config.hidden_size, 1);
  reader.read_int("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  reader.read_int("num_attention_heads", config.num_attention_heads, 1);
  reader.read_int("intermediate_size", config.intermediate_size, 1);
  reader.read_int("max_position_embeddings", config.max_position_embeddings, 1);
  reader.read_token_id("pad_token_id", config.pad_token_id);
  reader.read_number("hidden_dropout_prob", config.hidden_dropout_prob, 1);
  reader.read_number("attention_probs_dropout_prob", config.attention_probs_dropout_prob, 1);
  reader.read_number("layer_norm_eps", config.layer_norm_eps, ConfigReader::kAny);
  reader.read_number("initializer_range", config.initializer_range, ConfigReader::kAny);
  reader.read_activation("hidden_act", config.hidden_act);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  read_text_head(reader, config.text_head, config.head);
  reader.expect({"transformers_version", "torch_dtype", "dtype", "use_cache",
                 "gradient_checkpointing", "chunk_size_feed_forward", "tie_word_embeddings",
                 "output_attentions", "output_hidden_states", "output_past", "return_dict",
                 "_name_or_path", "bos_token_id", "eos_token_id"});
}

void read_encoder(ConfigReader& reader, EncoderConfig& config) {
  reader.require_text("position_embedding_type", "absolute",
                      "relative positions are not supported");
  reader.refuse_other_forms();
  read_layers(reader, config);
  reader.read_int("type_vocab_size", config.type_vocab_size, 1);
}

void read_classifier_dropout(ConfigReader& reader, ClassifierDropoutConfig& config) {
  reader.read_number("classifier_dropout", config.classifier_dropout, 1);
}

void append_layers(nlohmann::ordered_json& json, const EncoderConfig& config) {
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["intermediate_size"] = config.intermediate_size;
  json["hidden_act"] = config.hidden_act;
  json["hidden_dropout_prob"] = config.hidden_dropout_prob;
  json["attention_probs_dropout_prob"] = config.attention_probs_dropout_prob;
  json["max_position_embeddings"] = config.max_position_embeddings;
}

nlohmann::ordered_json encoder_json(const EncoderConfig& config, const std::string& model_type,
                                    const std::string& classes) {
  nlohmann::ordered_json json = {
      {"architectures",
       {classes + (config.head.kind == HeadKind::token ? "ForTokenClassification"
                                                       : "ForSequenceClassification")}},
      {"model_type", model_type}};
  append_layers(json, config);
  json["type_vocab_size"] = config.type_vocab_size;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["initializer_range"] = config.initializer_range;
  json["pad_token_id"] = config.pad_token_id;
  json["position_embedding_type"] = "absolute";
  if (config.pad_token_id < 0) json["pad_token_id"] = nullptr;
  return json;
}

void append_classifier_dropout(nlohmann::ordered_json& json,
                               const ClassifierDropoutConfig& config) {
  json["classifier_dropout"] = nullptr;
  if (config.classifier_dropout) json["classifier_dropout"] = *config.classifier_dropout;
}

void append_encoder_head(nlohmann::ordered_json& json, const EncoderConfig& config,
                         const std::string& classes) {
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  append_text_head(json, config.text_head, config.head, classes + "Model");
}

void check_layers(const EncoderConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"intermediate_size", config.intermediate_size},
               {"max_position_embeddings", config.max_position_embeddings},
               {"num_labels", config.num_labels}},
              where);
  check_depth("num_hidden_layers", {config.num_hidden_layers}, where);
  if (config.hidden_size % config.num_attention_heads != 0) {
    refuse(std::to_string(config.num_attention_heads) +
           " num_attention_heads do not divide hidden_size " + std::to_string(config.hidden_size));
  }
  check_rates({config.hidden_dropout_prob, config.attention_probs_dropout_prob}, where);
  if (!nn::find_activation(config.hidden_act))
    refuse("hidden_act \"" + config.hidden_act + "\" is not supported");
  if (!(config.layer_norm_eps >= 0)) refuse("layer_norm_eps must not be negative");
  if (!(config.initializer_range >= 0)) refuse("initializer_range must not be negative");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
}

void check_encoder(const EncoderConfig& config, double dropout, const std::string& where) {
  check_layers(config, where);
  check_sizes(
      {{"embedding_size", config.embedding_width()}, {"type_vocab_size", config.type_vocab_size}},
      where);
  check_rates({dropout}, where);
  check_text_head(config.text_head, config.head.kind, config.num_hidden_layers, dropout);
}

void take_encoder_facts(const ModelFacts& facts, EncoderConfig& config) {
  if (facts.pad_token_id) config.pad_token_id = *facts.pad_token_id;
  take_text_facts(facts, config);
}

InitRule encoder_init_rule(const EncoderConfig& config, const std::string& parameter,
                           const Shape& shape) {
  if (parameter.ends_with(".bias")) return {};
  if (shape.size() == 1) return InitRule::ones();  // a norm's weight
  const bool is_words = parameter.ends_with("word_embeddings.weight");
  return {.deviation = config.initializer_range, .zero_row = is_words ? config.pad_token_id : -1};
}

void check_batch(BatchShape shape, int64_t max_positions, const std::string& family) {
  if (max_positions > 0 && shape.length > max_positions) {
    throw Error(ErrorCode::bad_config, "max_seq_length",
                std::to_string(shape.length) + " tokens are more than the model's " +
                    std::to_string(max_positions) + " positions",
                "at most " + std::to_string(max_positions));
  }
  if (shape.micro_batch < 1 || shape.length < 1)
    throw Error(ErrorCode::bad_config, family, "a batch needs at least one row and one token");
}

void EncoderGraph::declare_inputs(SequenceModel& model, bool head_is_random) {
  model_ = &model;
  const Shape ids = {shape_.micro_batch, shape_.length};
  model.input_ids = b_.input(kInputIds, {DType::i32, ids});
  if (config_.type_vocab_size > 1)
    model.token_type_ids = b_.input(kTokenTypeIds, {DType::i32, ids});
  model.attention_mask = b_.input(kAttentionMask, {DType::boolean, ids});
  const bool is_random =
      head_is_random || config_.hidden_dropout_prob > 0 || config_.attention_probs_dropout_prob > 0;
  if (training_ && is_random) model.rng = b_.input(kRandomKey, {DType::i64, {3}});
}

ValueId EncoderGraph::embeddings(ValueId position_ids) {
  const int64_t width = config_.embedding_width();
  ValueId x = nn::embedding(b_, "word_embeddings", model_->input_ids, config_.vocab_size, width);
  if (config_.type_vocab_size > 1) {
    x = add(b_, x,
            nn::embedding(b_, "token_type_embeddings", model_->token_type_ids,
                          config_.type_vocab_size, width));
  } else {  // one type: the same for every token, whatever the second text of a pair is
    x = add(b_, x,
            b_.parameter(nn::scoped(b_, "token_type_embeddings.weight"), {DType::f32, {1, width}}));
  }
  const ValueId table = b_.parameter(nn::scoped(b_, "position_embeddings.weight"),
                                     {DType::f32, {config_.max_position_embeddings, width}});
  x = add(b_, x,
          position_ids == kNone ? slice(b_, table, 0, 0, shape_.length)
                                : embedding(b_, table, position_ids));
  return drop(norm("LayerNorm", x));
}

ValueId EncoderGraph::attend(ValueId x) {
  const ValueId q = nn::linear(b_, "query", x, config_.hidden_size);
  const ValueId k = nn::linear(b_, "key", x, config_.hidden_size);
  const ValueId v = nn::linear(b_, "value", x, config_.hidden_size);
  return attention(b_, q, k, v,
                   {.heads = config_.num_attention_heads,
                    .mask = model_->attention_mask,
                    .rng = model_->rng,
                    .rate = training_ ? config_.attention_probs_dropout_prob : 0})
      .o;
}

ValueId EncoderGraph::add_and_normalise(ValueId x, ValueId residual) {
  const ScopeGuard scope(b_, "output");
  const ValueId y = drop(nn::linear(b_, "dense", x, config_.hidden_size));
  return norm("LayerNorm", add(b_, y, residual));
}

ValueId EncoderGraph::layer(ValueId x) {
  {
    const ScopeGuard scope(b_, "attention");
    ValueId context = kNone;
    {
      const ScopeGuard self(b_, "self");
      context = attend(x);
    }
    x = add_and_normalise(context, x);
  }
  ValueId inner = kNone;
  {
    const ScopeGuard scope(b_, "intermediate");
    inner = activate(nn::linear(b_, "dense", x, config_.intermediate_size));
  }
  return add_and_normalise(inner, x);
}

std::vector<ValueId> EncoderGraph::stack(ValueId x) {
  std::vector<ValueId> layers;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const ScopeGuard scope(b_, "encoder.layer." + std::to_string(i));
    x = layers.emplace_back(layer(x));
  }
  return layers;
}

ValueId EncoderGraph::logits(std::span<const ValueId> layers, double dropout,
                             const std::function<ValueId(ValueId last)>& own,
                             const char* classifier) {
  return text_head(b_, {.head = config_.text_head,
                        .kind = config_.head.kind,
                        .num_labels = config_.num_labels,
                        .layers = layers,
                        .attention_mask = model_->attention_mask,
                        .rng = model_->rng,
                        .dropout = dropout,
                        .own = own,
                        .classifier = classifier});
}

ValueId EncoderGraph::first_token(ValueId x) {
  return reshape(b_, slice(b_, x, 1, 0, 1), {shape_.micro_batch, b_.shape(x)[2]});
}

}  // namespace snug::models
