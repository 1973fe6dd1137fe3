// SPDX-License-Identifier: Apache-2.0
// DebertaConfig: presets, validation, config.json in and out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/config_reader.h"
#include "models/deberta/deberta.h"
#include "models/text_head.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug::models {
namespace {

// The published networks, and one of BERT-tiny's size.
struct DebertaPreset {
  const char* name;
  int64_t words;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
  int64_t intermediate;
};
constexpr DebertaPreset kDebertaPresets[] = {{"deberta-v3-tiny", 32000, 2, 128, 2, 512},
                                             {"deberta-v3-xsmall", 128100, 12, 384, 6, 1536},
                                             {"deberta-v3-small", 128100, 6, 768, 12, 3072},
                                             {"deberta-v3-base", 128100, 12, 768, 12, 3072},
                                             {"deberta-v3-large", 128100, 24, 1024, 16, 4096},
                                             {"mdeberta-v3-base", 251000, 12, 768, 12, 3072},
                                             {"deberta-v2-xlarge", 128100, 24, 1536, 24, 6144}};

// Fields that ask for mathematics that this encoder does not have.
void refuse_other_debertas(ConfigReader& reader) {
  if (const auto type = reader.find("model_type"); type && type->as_string() == "deberta") {
    type->fail("is \"deberta\": DeBERTa v1, whose attention is another, is not supported",
               "use DeBERTa v3 or v2, whose model_type is deberta-v2");
  }
  reader.require_text("model_type", "deberta-v2", "the model is not DeBERTa");
  reader.refuse_other_forms();
  // The last layer run again, with the result as queries: of pretraining only.
  if (const auto steps = reader.find("z_steps"); steps && steps->as_int() > 1)
    steps->fail("is " + std::to_string(steps->as_int()) + ": only 0 and 1 are supported");
}

// "a|b|c" as its words, without blanks, in lower case.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '|') {
      words.emplace_back();
    } else if (c != ' ') {
      words.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return words;
}

void read_position_types(ConfigReader& reader, DebertaConfig& config) {
  const auto field = reader.find("pos_att_type");
  if (!field) return;
  for (const std::string& word :
       field->is_array() ? field->as_strings() : words_of(field->as_string())) {
    if (word == "c2p") {
      config.content_to_position = true;
    } else if (word == "p2c") {
      config.position_to_content = true;
    } else if (!word.empty()) {
      field->fail("has \"" + word + "\", which is not supported", "c2p, p2c or both");
    }
  }
}

void read_relative(ConfigReader& reader, DebertaConfig& config) {
  reader.read("relative_attention", config.relative_attention);
  reader.read("share_att_key", config.share_att_key);
  read_position_types(reader, config);
  reader.read_int("position_buckets", config.position_buckets, -1);
  reader.read_int("max_relative_positions", config.max_relative_positions, -1);
  const auto norm = reader.find("norm_rel_ebd");
  for (const std::string& word : words_of(norm ? norm->as_string() : "none")) {
    if (word == "layer_norm") {
      config.has_relative_norm = true;
    } else if (word != "none") {
      norm->fail("has \"" + word + "\", which is not supported", "layer_norm or none");
    }
  }
  const bool has_types = config.content_to_position || config.position_to_content;
  if (config.relative_attention && !has_types) {
    const auto field = reader.find("relative_attention");
    field->fail("is true without pos_att_type: the table of distances would be of no use",
                "set relative_attention to false and remove encoder.rel_embeddings from the file");
  }
  if (config.has_relative_norm && !config.relative_attention) {
    norm->fail("is \"layer_norm\" without relative_attention: there is no table to normalise",
               "set norm_rel_ebd to none and remove encoder.LayerNorm from the file");
  }
}

// Sizes that the original has a field for, but works with one value of.
void require_size(ConfigReader& reader, const std::string& key, int64_t only,
                  const std::string& reason) {
  const auto field = reader.find(key);
  if (!field || field->as_int() == only) return;
  field->fail("is " + std::to_string(field->as_int()) + ", but " + reason + " is " +
              std::to_string(only));
}

std::vector<std::string> position_types(const DebertaConfig& config) {
  std::vector<std::string> types;
  if (config.position_to_content) types.emplace_back("p2c");
  if (config.content_to_position) types.emplace_back("c2p");
  return types;
}

}  // namespace

std::optional<DebertaConfig> find_deberta_preset(std::string_view name) {
  for (const DebertaPreset& preset : kDebertaPresets) {
    if (name != preset.name) continue;
    DebertaConfig config;
    config.vocab_size = preset.words;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = preset.intermediate;
    config.position_biased_input = false;
    config.relative_attention = true;
    config.share_att_key = true;
    config.content_to_position = true;
    config.position_to_content = true;
    config.position_buckets = 256;
    config.has_relative_norm = true;
    if (name == "deberta-v2-xlarge") {
      config.conv_kernel_size = 3;
      config.conv_act = "gelu";
    }
    return config;
  }
  return std::nullopt;
}

int64_t DebertaConfig::max_positions() const {
  int64_t most = position_biased_input ? max_position_embeddings : 0;
  // Beyond the middle a bucket is a share of the logarithm of the furthest distance: there is none
  // where that is the middle itself.
  const int64_t middle = position_buckets / 2;
  if (relative_attention && position_buckets > 0 && furthest() - 1 <= middle)
    most = most == 0 ? middle + 1 : std::min(most, middle + 1);
  return most;
}

void validate(const DebertaConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_layers(config, where);
  check_sizes({{"conv_groups", config.conv_groups}}, where);
  if (config.position_buckets == 1) refuse("position_buckets must be 2 or more, or -1 for none");
  if (config.conv_kernel_size > 0 && config.conv_kernel_size % 2 == 0) {
    refuse("conv_kernel_size " + std::to_string(config.conv_kernel_size) +
           " is even: as many tokens must come out as go in");
  }
  if (config.conv_kernel_size > 0 && config.hidden_size % config.conv_groups != 0) {
    refuse(std::to_string(config.conv_groups) + " conv_groups do not divide hidden_size " +
           std::to_string(config.hidden_size));
  }
  check_rates({config.pooler_dropout, config.cls_dropout.value_or(0)}, where);
  for (const std::string& name : {config.pooler_hidden_act, config.conv_act}) {
    if (!nn::find_activation(name)) refuse("the activation \"" + name + "\" is not supported");
  }
  check_text_head(config.text_head, config.head.kind, config.num_hidden_layers,
                  config.classifier_rate());
}

DebertaConfig deberta_config_from_json(std::string_view json, const std::string& file,
                                       std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  refuse_other_debertas(reader);
  DebertaConfig config;
  read_layers(reader, config);
  reader.read_int("embedding_size", config.embedding_size, 1);
  if (config.embedding_size == config.hidden_size) config.embedding_size = 0;
  reader.read_int("type_vocab_size", config.type_vocab_size, 0);
  reader.read("position_biased_input", config.position_biased_input);
  read_relative(reader, config);
  reader.read_int("conv_kernel_size", config.conv_kernel_size, 0, 1023);
  reader.read_int("conv_groups", config.conv_groups, 1);
  reader.read_activation("conv_act", config.conv_act);
  reader.read_activation("pooler_hidden_act", config.pooler_hidden_act);
  reader.read_number("pooler_dropout", config.pooler_dropout, 1);
  reader.read_number("cls_dropout", config.cls_dropout, 1);
  require_size(reader, "pooler_hidden_size", config.hidden_size, "hidden_size");
  require_size(reader, "attention_head_size", config.hidden_size / config.num_attention_heads,
               "hidden_size / num_attention_heads");
  // legacy: of the head for masked words. pooler, padding_idx: of Microsoft's own program.
  reader.expect({"legacy", "pooler", "padding_idx"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string deberta_config_to_json(const DebertaConfig& config) {
  nlohmann::ordered_json json = {
      {"architectures",
       {config.head.kind == HeadKind::token ? "DebertaV2ForTokenClassification"
                                            : "DebertaV2ForSequenceClassification"}},
      {"model_type", "deberta-v2"}};
  append_layers(json, config);
  json["position_biased_input"] = config.position_biased_input;
  json["type_vocab_size"] = config.type_vocab_size;
  json["relative_attention"] = config.relative_attention;
  json["share_att_key"] = config.share_att_key;
  json["pos_att_type"] = position_types(config);
  json["position_buckets"] = config.position_buckets;
  json["max_relative_positions"] = config.max_relative_positions;
  json["norm_rel_ebd"] = config.has_relative_norm ? "layer_norm" : "none";
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["initializer_range"] = config.initializer_range;
  json["pad_token_id"] = config.pad_token_id;
  json["pooler_hidden_size"] = config.hidden_size;
  json["pooler_dropout"] = config.pooler_dropout;
  json["pooler_hidden_act"] = config.pooler_hidden_act;
  if (config.pad_token_id < 0) json["pad_token_id"] = nullptr;
  if (config.embedding_size > 0) json["embedding_size"] = config.embedding_size;
  if (config.cls_dropout) json["cls_dropout"] = *config.cls_dropout;
  // Without a convolution they mean nothing, but what was read is what is written.
  json["conv_kernel_size"] = config.conv_kernel_size;
  json["conv_groups"] = config.conv_groups;
  json["conv_act"] = config.conv_act;
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  append_text_head(json, config.text_head, config.head, "DebertaV2Model");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
