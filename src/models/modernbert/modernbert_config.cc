// SPDX-License-Identifier: Apache-2.0
// ModernbertConfig: validation, config.json in and out. Two forms are read: the published one, with
// global_attn_every_n_layers and two thetas, and transformers 5's, with layer_types and
// rope_parameters.
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/config_reader.h"
#include "models/modernbert/modernbert.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr const char* kLocal = "sliding_attention";
constexpr const char* kGlobal = "full_attention";

void refuse_other_modernberts(ConfigReader& reader) {
  reader.require_text("model_type", "modernbert", "the model is not ModernBERT");
  reader.require_text("position_embedding_type", "absolute", "positions are rotary here");
  reader.refuse_other_forms();
  if (const auto scaling = reader.find("rope_scaling"))
    scaling->fail("is there: stretched rotary positions are not supported");
}

void read_activation(ConfigReader& reader, const char* key, std::string& value,
                     const char* supported) {
  const auto field = reader.find(key);
  if (!field) return;
  value = field->as_string();
  const auto found = nn::find_activation(value);
  const bool is_gelu = found == nn::Activation::gelu || found == nn::Activation::gelu_tanh;
  if (!found || (std::string_view(key) == "hidden_activation" && !is_gelu))
    field->fail("is \"" + value + "\", which is not supported", supported);
}

// Which layers look at a window.
void read_layers(ConfigReader& reader, ModernbertConfig& config) {
  int64_t every = 3;
  reader.read_int("global_attn_every_n_layers", every, 1);
  std::vector<bool> layers;
  if (const auto types = reader.find("layer_types")) {
    for (int64_t i = 0; i < types->size(); ++i) {
      const io::JsonValue type = types->at(i);
      const std::string word = type.as_string();
      if (word != kLocal && word != kGlobal)
        type.fail("is \"" + word + "\", which is not supported",
                  "full_attention or sliding_attention");
      layers.push_back(word == kLocal);
    }
    if (static_cast<int64_t>(layers.size()) != config.num_hidden_layers)
      types->fail("has " + std::to_string(layers.size()) + " layers, num_hidden_layers is " +
                  std::to_string(config.num_hidden_layers));
  } else {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.push_back(i % every != 0);
  }
  bool is_default = true;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    is_default = is_default && layers[static_cast<size_t>(i)] == (i % 3 != 0);
  if (!is_default) config.is_local = std::move(layers);
}

void read_theta(const io::JsonValue& all, const char* kind, double& theta) {
  const auto own = all.find(kind);
  if (!own) return;
  if (const auto type = own->find("rope_type")) {
    if (type->as_string() != "default")
      type->fail("is \"" + type->as_string() + "\": stretched rotary positions are not supported");
  }
  if (const auto field = own->find("rope_theta")) theta = field->as_double();
}

void read_positions(ConfigReader& reader, ModernbertConfig& config) {
  reader.read_number("global_rope_theta", config.global_rope_theta, ConfigReader::kAny);
  reader.read_number("local_rope_theta", config.local_rope_theta, ConfigReader::kAny);
  if (reader.is_null("local_rope_theta")) config.local_rope_theta = config.global_rope_theta;
  if (const auto all = reader.find("rope_parameters")) {
    for (const std::string& kind : all->keys()) {
      if (kind != kGlobal && kind != kLocal)
        all->fail("has \"" + kind + "\", which is no kind of layer",
                  "full_attention and sliding_attention, with a rope_theta each");
    }
    read_theta(*all, kGlobal, config.global_rope_theta);
    read_theta(*all, kLocal, config.local_rope_theta);
  }
  reader.read_int("local_attention", config.local_attention, 2);
  if (const auto window = reader.find("sliding_window")) {
    if (window->as_int(0, int64_t{1} << 31) != config.local_attention / 2)
      window->fail("is not half of local_attention " + std::to_string(config.local_attention));
  }
}

// "global_attn_every_n_layers" where that says all.
int64_t global_every(const ModernbertConfig& config) {
  for (int64_t every = 1; every <= config.num_hidden_layers; ++every) {
    bool fits = true;
    for (int64_t i = 0; i < config.num_hidden_layers; ++i)
      fits = fits && config.is_local_layer(i) == (i % every != 0);
    if (fits) return every;
  }
  return 0;
}

nlohmann::ordered_json id_or_null(int64_t id) {
  return id < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(id);
}

}  // namespace

void validate(const ModernbertConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"intermediate_size", config.intermediate_size},
               {"max_position_embeddings", config.max_position_embeddings},
               {"local_attention", config.local_attention},
               {"num_labels", config.num_labels}},
              where);
  check_depth("num_hidden_layers", {config.num_hidden_layers}, where);
  if (config.hidden_size % (2 * config.num_attention_heads) != 0) {
    refuse(std::to_string(config.num_attention_heads) +
           " num_attention_heads do not cut hidden_size " + std::to_string(config.hidden_size) +
           " into an even number of columns");
  }
  if (config.local_attention < 2) refuse("local_attention must be at least 2");
  if (!config.is_local.empty() &&
      static_cast<int64_t>(config.is_local.size()) != config.num_hidden_layers)
    refuse("layer_types must have one word for each layer");
  for (const double theta : {config.global_rope_theta, config.local_rope_theta}) {
    if (!(theta > 0)) refuse("rope_theta must be above 0");
  }
  check_rates({config.embedding_dropout, config.attention_dropout, config.mlp_dropout,
               config.classifier_dropout},
              where);
  if (!(config.norm_eps >= 0)) refuse("norm_eps must not be negative");
  if (!(config.initializer_range >= 0)) refuse("initializer_range must not be negative");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
  check_text_head(config.text_head, config.head.kind, config.num_hidden_layers,
                  config.classifier_dropout);
}

ModernbertConfig modernbert_config_from_json(std::string_view json, const std::string& file,
                                             std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  refuse_other_modernberts(reader);
  ModernbertConfig config;
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("hidden_size", config.hidden_size, 1);
  reader.read_int("intermediate_size", config.intermediate_size, 1);
  reader.read_int("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  reader.read_int("num_attention_heads", config.num_attention_heads, 1);
  if (const auto width = reader.find("head_dim")) {
    if (width->as_int(1, int64_t{1} << 31) * config.num_attention_heads != config.hidden_size)
      width->fail("times num_attention_heads is not hidden_size, which is not supported");
  }
  reader.read_int("max_position_embeddings", config.max_position_embeddings, 1);
  reader.read_number("initializer_range", config.initializer_range, ConfigReader::kAny);
  reader.read_number("initializer_cutoff_factor", config.initializer_cutoff_factor,
                     ConfigReader::kAny);
  reader.read_number("norm_eps", config.norm_eps, ConfigReader::kAny);
  reader.read("norm_bias", config.norm_bias);
  reader.read("attention_bias", config.attention_bias);
  reader.read("mlp_bias", config.mlp_bias);
  reader.read("classifier_bias", config.classifier_bias);
  read_layers(reader, config);
  read_positions(reader, config);
  reader.read_number("embedding_dropout", config.embedding_dropout, 1);
  reader.read_number("attention_dropout", config.attention_dropout, 1);
  reader.read_number("mlp_dropout", config.mlp_dropout, 1);
  reader.read_number("classifier_dropout", config.classifier_dropout, 1);
  read_activation(reader, "hidden_activation", config.hidden_activation,
                  "gelu, gelu_new or gelu_pytorch_tanh");
  read_activation(reader, "classifier_activation", config.classifier_activation,
                  "gelu, gelu_new, gelu_pytorch_tanh, relu, tanh or sigmoid");
  if (const auto pooling = reader.find("classifier_pooling")) {
    const std::string word = pooling->as_string();
    if (word != "cls" && word != "mean")
      pooling->fail("is \"" + word + "\", which is not supported", "cls or mean");
    config.has_mean_pooling = word == "mean";
  }
  reader.read_token_id("pad_token_id", config.pad_token_id);
  reader.read_token_id("cls_token_id", config.cls_token_id);
  reader.read_token_id("sep_token_id", config.sep_token_id);
  reader.read_token_id("bos_token_id", config.bos_token_id);
  reader.read_token_id("eos_token_id", config.eos_token_id);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  read_text_head(reader, config.text_head, config.head);
  reader.expect({"transformers_version", "torch_dtype", "dtype", "use_cache",
                 "gradient_checkpointing", "tie_word_embeddings", "output_attentions",
                 "output_hidden_states", "return_dict", "_name_or_path", "layer_norm_eps",
                 "decoder_bias", "deterministic_flash_attn", "reference_compile",
                 "repad_logits_with_grad", "sparse_prediction", "sparse_pred_ignore_index"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string modernbert_config_to_json(const ModernbertConfig& config) {
  const bool is_token = config.head.kind == HeadKind::token;
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    types.push_back(config.is_local_layer(i) ? kLocal : kGlobal);
  const auto rope = [](double theta) {
    return nlohmann::ordered_json{{"rope_type", "default"}, {"rope_theta", theta}};
  };
  nlohmann::ordered_json json = {
      {"architectures",
       {is_token ? "ModernBertForTokenClassification" : "ModernBertForSequenceClassification"}},
      {"model_type", "modernbert"},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"hidden_activation", config.hidden_activation},
      {"max_position_embeddings", config.max_position_embeddings},
      {"initializer_range", config.initializer_range},
      {"initializer_cutoff_factor", config.initializer_cutoff_factor},
      {"norm_eps", config.norm_eps},
      {"norm_bias", config.norm_bias},
      {"attention_bias", config.attention_bias},
      {"mlp_bias", config.mlp_bias},
      {"classifier_bias", config.classifier_bias},
      {"layer_types", types},
      {"local_attention", config.local_attention},
      {"global_rope_theta", config.global_rope_theta},
      {"local_rope_theta", config.local_rope_theta},
      {"rope_parameters",
       {{kGlobal, rope(config.global_rope_theta)}, {kLocal, rope(config.local_rope_theta)}}},
      {"embedding_dropout", config.embedding_dropout},
      {"attention_dropout", config.attention_dropout},
      {"mlp_dropout", config.mlp_dropout},
      {"classifier_dropout", config.classifier_dropout},
      {"classifier_pooling", config.has_mean_pooling ? "mean" : "cls"},
      {"classifier_activation", config.classifier_activation},
      {"pad_token_id", id_or_null(config.pad_token_id)},
      {"cls_token_id", id_or_null(config.cls_token_id)},
      {"sep_token_id", id_or_null(config.sep_token_id)},
      {"bos_token_id", id_or_null(config.bos_token_id)},
      {"eos_token_id", id_or_null(config.eos_token_id)}};
  if (const int64_t every = global_every(config); every > 0)
    json["global_attn_every_n_layers"] = every;
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  append_text_head(json, config.text_head, config.head, "ModernBertModel");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
