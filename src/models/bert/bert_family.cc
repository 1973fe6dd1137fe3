// SPDX-License-Identifier: Apache-2.0
// BERT as a family: its place in the program and its names in files.
#include "io/json_file.h"
#include "models/bert/bert.h"
#include "models/text_family.h"
#include "snug/error.h"

namespace snug::models {
namespace {

WeightRole role(const std::string& parameter) {
  const bool is_pooler = parameter.starts_with("bert.pooler.") || parameter.starts_with("pooler.");
  return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
}

// What is left over from pretraining ("cls.") is no sign of another network.
bool is_own(const std::string& tensor) {
  return starts_with_any(tensor, {"bert.", "embeddings.", "encoder.", "pooler.", "classifier."});
}

bool is_class_of_bert(std::string_view name) {
  if (!name.starts_with("Bert")) return false;
  name.remove_prefix(4);
  return name.starts_with("For") || name == "Model" || name == "LMHeadModel" ||
         name == "PreTrainedModel";
}

/// Files of BERT that are older than model_type have its classes, or these fields, which together
/// no other family has.
void check_without_type(const io::JsonValue& json) {
  if (!json.get_string("model_type", "").empty()) return;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_config, json.file(), "there is no model_type, and " + what,
                "give the config.json of a model, with the model_type that transformers writes");
  };
  if (const auto names = json.find("architectures")) {
    for (const std::string& name : names->as_strings()) {
      if (is_class_of_bert(name)) return;
      refuse("architectures names '" + name + "', which is not BERT's");
    }
  }
  std::string missing;
  for (const char* field : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                            "type_vocab_size"}) {
    if (!json.find(field)) missing += (missing.empty() ? "" : ", ") + std::string(field);
  }
  if (!missing.empty()) refuse("BERT, whose older files have none, has " + missing);
}

BertConfig read_bert(std::string_view json, const std::string& file,
                     std::vector<std::string>* ignored) {
  check_without_type(io::parse_json(json, file));
  return bert_config_from_json(json, file, ignored);
}

struct Parts {
  using Config = BertConfig;
  static constexpr auto preset = find_bert_preset;
  static constexpr auto read = read_bert;
  static constexpr auto write = bert_config_to_json;
  static constexpr auto build = build_bert_classifier;
  static constexpr auto init_rule = encoder_init_rule;
  static constexpr auto apply_facts = apply_encoder_facts;
};

}  // namespace

const ModelFamily& bert_family() {
  static const ModelFamily family = text_family<Parts>(
      {.name = "bert",
       .model_types = std::vector<std::string>{"bert", ""},
       .presets = std::vector<std::string>{"bert-tiny", "bert-mini", "bert-small", "bert-medium",
                                           "bert-base", "bert-large"},
       .presets_help = "bert-tiny, bert-mini, bert-small, bert-medium, bert-base, bert-large",
       .weights =
           WeightNames{.stored = own_name, .prefix = "bert.", .role = role, .is_own = is_own}});
  return family;
}

}  // namespace snug::models
