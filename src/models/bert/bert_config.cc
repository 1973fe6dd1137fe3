// SPDX-License-Identifier: Apache-2.0
// BertConfig: presets, validation, config.json in and out.
#include <limits>
#include <nlohmann/json.hpp>

#include "models/bert/bert.h"
#include "models/config_reader.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug::models {
namespace {

// Fields that ask for mathematics that this encoder does not have.
void refuse_other_models(ConfigReader& reader) {
  reader.require_text("model_type", "bert", "the model is not BERT");
  reader.require_text("position_embedding_type", "absolute",
                      "relative positions are not supported");
  reader.refuse_other_forms();
}

struct Preset {
  std::string_view name;
  int64_t layers;
  int64_t hidden;
};

const Preset* find_preset(std::string_view name) {
  static constexpr Preset kPresets[] = {{"tiny", 2, 128},   {"mini", 4, 256},  {"small", 4, 512},
                                        {"medium", 8, 512}, {"base", 12, 768}, {"large", 24, 1024}};
  constexpr std::string_view kPrefix = "bert-";
  if (!name.starts_with(kPrefix)) return nullptr;
  name.remove_prefix(kPrefix.size());
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

}  // namespace

bool is_bert_preset(std::string_view name) { return find_preset(name) != nullptr; }

BertConfig bert_preset(std::string_view name) {
  if (const Preset* preset = find_preset(name)) {
    BertConfig config;
    config.num_hidden_layers = preset->layers;
    config.hidden_size = preset->hidden;
    config.num_attention_heads = preset->hidden / 64;
    config.intermediate_size = preset->hidden * 4;
    return config;
  }
  throw Error(ErrorCode::bad_config, "model", "there is no preset \"" + std::string(name) + "\"",
              "bert-tiny, bert-mini, bert-small, bert-medium, bert-base or bert-large");
}

void validate(const BertConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"intermediate_size", config.intermediate_size},
               {"max_position_embeddings", config.max_position_embeddings},
               {"type_vocab_size", config.type_vocab_size},
               {"num_labels", config.num_labels}},
              where);
  if (config.hidden_size % config.num_attention_heads != 0) {
    refuse(std::to_string(config.num_attention_heads) +
           " num_attention_heads do not divide hidden_size " + std::to_string(config.hidden_size));
  }
  for (double rate : {config.hidden_dropout_prob, config.attention_probs_dropout_prob,
                      config.classifier_dropout.value_or(0)}) {
    if (!(rate >= 0 && rate < 1)) refuse("a dropout rate must be at least 0 and below 1");
  }
  if (!nn::find_activation(config.hidden_act))
    refuse("hidden_act \"" + config.hidden_act + "\" is not supported");
  if (!(config.layer_norm_eps >= 0)) refuse("layer_norm_eps must not be negative");
  if (!(config.initializer_range >= 0)) refuse("initializer_range must not be negative");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
  check_text_head(config.text_head, config.head.kind, config.num_hidden_layers,
                  config.classifier_rate());
}

BertConfig bert_config_from_json(std::string_view json, const std::string& file,
                                 std::vector<std::string>* ignored) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  ConfigReader reader(json, file);
  refuse_other_models(reader);
  BertConfig config;
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("hidden_size", config.hidden_size, 1);
  reader.read_int("num_hidden_layers", config.num_hidden_layers, 1);
  reader.read_int("num_attention_heads", config.num_attention_heads, 1);
  reader.read_int("intermediate_size", config.intermediate_size, 1);
  reader.read_int("max_position_embeddings", config.max_position_embeddings, 1);
  reader.read_int("type_vocab_size", config.type_vocab_size, 1);
  reader.read_token_id("pad_token_id", config.pad_token_id);
  reader.read_number("hidden_dropout_prob", config.hidden_dropout_prob, 1);
  reader.read_number("attention_probs_dropout_prob", config.attention_probs_dropout_prob, 1);
  reader.read_number("layer_norm_eps", config.layer_norm_eps, kAny);
  reader.read_number("initializer_range", config.initializer_range, kAny);
  if (reader.find("classifier_dropout")) {
    double rate = 0;
    reader.read_number("classifier_dropout", rate, 1);
    config.classifier_dropout = rate;
  }
  reader.read_activation("hidden_act", config.hidden_act);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  read_text_head(reader, config.text_head, config.head);
  reader.expect({"transformers_version", "torch_dtype", "dtype", "use_cache",
                 "gradient_checkpointing", "chunk_size_feed_forward", "tie_word_embeddings",
                 "output_attentions", "output_hidden_states", "return_dict", "_name_or_path"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string bert_config_to_json(const BertConfig& config) {
  nlohmann::ordered_json json = {
      {"architectures",
       {config.head.kind == HeadKind::token ? "BertForTokenClassification"
                                            : "BertForSequenceClassification"}},
      {"model_type", "bert"},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"intermediate_size", config.intermediate_size},
      {"hidden_act", config.hidden_act},
      {"hidden_dropout_prob", config.hidden_dropout_prob},
      {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
      {"max_position_embeddings", config.max_position_embeddings},
      {"type_vocab_size", config.type_vocab_size},
      {"layer_norm_eps", config.layer_norm_eps},
      {"initializer_range", config.initializer_range},
      {"pad_token_id", config.pad_token_id},
      {"position_embedding_type", "absolute"}};
  if (config.pad_token_id < 0) json["pad_token_id"] = nullptr;
  json["classifier_dropout"] = nullptr;
  if (config.classifier_dropout) json["classifier_dropout"] = *config.classifier_dropout;
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  append_text_head(json, config.text_head, config.head, "BertModel");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
