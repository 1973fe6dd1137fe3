// SPDX-License-Identifier: Apache-2.0
// DistilbertConfig: validation, config.json in and out.
#include <limits>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/config_reader.h"
#include "models/distilbert/distilbert.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug::models {
namespace {

// Fields that ask for mathematics that this encoder does not have, and BERT's names for sizes,
// which transformers takes for its own.
void refuse_other_distilberts(ConfigReader& reader) {
  reader.require_text("model_type", "distilbert", "the model is not DistilBERT");
  reader.require_bool("sinusoidal_pos_embds", false, "fixed positions are not supported");
  reader.refuse_other_forms();
  for (const auto& [other, own] : {std::pair{"hidden_size", "dim"},
                                   {"num_attention_heads", "n_heads"},
                                   {"num_hidden_layers", "n_layers"}}) {
    if (const auto field = reader.find(other))
      field->fail("is not how DistilBERT's config.json calls it", std::string("call it ") + own);
  }
}

}  // namespace

void validate(const DistilbertConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size},
               {"dim", config.dim},
               {"n_layers", config.n_layers},
               {"n_heads", config.n_heads},
               {"hidden_dim", config.hidden_dim},
               {"max_position_embeddings", config.max_position_embeddings},
               {"num_labels", config.num_labels}},
              where);
  check_depth("n_layers", {config.n_layers}, where);
  if (config.dim % config.n_heads != 0) {
    refuse(std::to_string(config.n_heads) + " n_heads do not divide dim " +
           std::to_string(config.dim));
  }
  check_rates({config.dropout, config.attention_dropout, config.seq_classif_dropout}, where);
  if (!nn::find_activation(config.activation))
    refuse("activation \"" + config.activation + "\" is not supported");
  if (!(config.initializer_range >= 0)) refuse("initializer_range must not be negative");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
  check_text_head(config.text_head, config.head.kind, config.n_layers, config.classifier_rate());
}

DistilbertConfig distilbert_config_from_json(std::string_view json, const std::string& file,
                                             std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  refuse_other_distilberts(reader);
  DistilbertConfig config;
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("dim", config.dim, 1);
  reader.read_int("n_layers", config.n_layers, 1, kMaxLayers);
  reader.read_int("n_heads", config.n_heads, 1);
  reader.read_int("hidden_dim", config.hidden_dim, 1);
  reader.read_int("max_position_embeddings", config.max_position_embeddings, 1);
  reader.read_token_id("pad_token_id", config.pad_token_id);
  reader.read_number("dropout", config.dropout, 1);
  reader.read_number("attention_dropout", config.attention_dropout, 1);
  reader.read_number("seq_classif_dropout", config.seq_classif_dropout, 1);
  reader.read_number("initializer_range", config.initializer_range,
                     std::numeric_limits<double>::infinity());
  reader.read_activation("activation", config.activation);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  read_text_head(reader, config.text_head, config.head);
  // qa_dropout and the tied weights belong to other heads.
  reader.expect({"transformers_version", "torch_dtype", "dtype", "qa_dropout", "tie_weights_",
                 "tie_word_embeddings", "bos_token_id", "eos_token_id", "gradient_checkpointing",
                 "chunk_size_feed_forward", "output_attentions", "output_hidden_states",
                 "output_past", "return_dict", "_name_or_path"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string distilbert_config_to_json(const DistilbertConfig& config) {
  nlohmann::ordered_json json = {
      {"architectures",
       {config.head.kind == HeadKind::token ? "DistilBertForTokenClassification"
                                            : "DistilBertForSequenceClassification"}},
      {"model_type", "distilbert"},
      {"vocab_size", config.vocab_size},
      {"dim", config.dim},
      {"n_layers", config.n_layers},
      {"n_heads", config.n_heads},
      {"hidden_dim", config.hidden_dim},
      {"activation", config.activation},
      {"dropout", config.dropout},
      {"attention_dropout", config.attention_dropout},
      {"seq_classif_dropout", config.seq_classif_dropout},
      {"max_position_embeddings", config.max_position_embeddings},
      {"sinusoidal_pos_embds", false},
      {"initializer_range", config.initializer_range},
      {"pad_token_id", config.pad_token_id}};
  if (config.pad_token_id < 0) json["pad_token_id"] = nullptr;
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  append_text_head(json, config.text_head, config.head, "DistilBertModel");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
