// SPDX-License-Identifier: Apache-2.0
// BERT as a family: its place in the program and its names in files.
#include "io/json_file.h"
#include "models/bert/bert.h"
#include "models/text_family.h"
#include "snug/error.h"

namespace snug::models {
namespace {

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

class BertFamily final : public TransformerFamily<BertConfig> {
 public:
  BertFamily()
      : TransformerFamily(
            {.name = "bert",
             .model_types = std::vector<std::string>{"bert", ""},
             .presets = std::vector<std::string>{"bert-tiny", "bert-mini", "bert-small",
                                                 "bert-medium", "bert-base", "bert-large"},
             .presets_help = "bert-tiny, bert-mini, bert-small, bert-medium, bert-base, bert-large",
             .prefix = "bert."}) {}

  // What is left over from pretraining ("cls.") is no sign of another network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(tensor, {"bert.", "embeddings.", "encoder.", "pooler.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<BertConfig> find_preset(const RunConfig& run) const override {
    return find_bert_preset(run.model);
  }
  [[nodiscard]] BertConfig parse(std::string_view json, const std::string& file,
                                 std::vector<std::string>* ignored) const override {
    return read_bert(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const BertConfig& config) const override {
    return bert_config_to_json(config);
  }
  void take_facts(const ModelFacts& facts, BertConfig& config) const override {
    take_encoder_facts(facts, config);
  }
  [[nodiscard]] ProgramSize size(const BertConfig& config, int64_t) const override {
    return {.parts = config.num_hidden_layers};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const BertConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_bert_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const BertConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return encoder_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    const bool is_pooler =
        parameter.starts_with("bert.pooler.") || parameter.starts_with("pooler.");
    return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& bert_family() {
  static const BertFamily family;
  return family;
}

}  // namespace snug::models
