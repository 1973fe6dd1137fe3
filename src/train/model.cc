// SPDX-License-Identifier: Apache-2.0
#include "train/model.h"

#include <algorithm>
#include <numeric>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "train/image_processor.h"
#include "train/model_weights.h"

namespace snug::train {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;

// ---- what each family answers: one overload a family ----

using models::BertConfig;
using models::LstmConfig;
using models::MlpConfig;
using models::ResnetConfig;
using models::VggConfig;

ModelConfig read_config(const std::string& path, std::vector<std::string>& ignored) {
  const std::string text = io::read_all(path, kMaxConfigBytes);
  const std::string type = io::parse_json(text, path).get_string("model_type", "bert");
  if (type == "bert") return models::bert_config_from_json(text, path, &ignored);
  if (type == "lstm") return models::lstm_config_from_json(text, path, &ignored);
  if (type == "mlp") return models::mlp_config_from_json(text, path, &ignored);
  if (type == "resnet" || type == "snug_resnet")
    return models::resnet_config_from_json(text, path, &ignored);
  if (type == "vgg") return models::vgg_config_from_json(text, path, &ignored);
  throw Error(ErrorCode::bad_config, path, "model_type '" + type + "' is not supported",
              "bert, lstm, mlp, resnet and vgg are");
}

ModelConfig preset_of(const RunConfig& config) {
  if (config.model == "mlp") {
    MlpConfig mlp;
    mlp.hidden_sizes = config.hidden_sizes;
    return mlp;
  }
  if (config.model == "lstm") {
    LstmConfig lstm;
    if (config.hidden_size > 0) lstm.hidden_size = config.hidden_size;
    if (config.num_hidden_layers > 0) lstm.num_hidden_layers = config.num_hidden_layers;
    lstm.embedding_size = config.embedding_size;
    return lstm;
  }
  if (config.model.starts_with("resnet-")) return models::resnet_preset(config.model);
  if (config.model.starts_with("vgg-")) return models::vgg_preset(config.model);
  if (models::is_bert_preset(config.model)) return models::bert_preset(config.model);
  throw Error(
      ErrorCode::bad_config, "model",
      "'" + config.model + "' is neither a folder that exists nor a preset",
      "Snug downloads nothing: get the model's folder (config.json, model.safetensors, "
      "tokenizer.json) and give its path. The presets, with fresh weights, are bert-tiny, "
      "bert-mini, bert-small, bert-medium, bert-base, bert-large, mlp, lstm, vgg-16, vgg-19 "
      "and resnet-18 to resnet-1202");
}

std::string json_of(const BertConfig& c) { return models::bert_config_to_json(c); }
std::string json_of(const LstmConfig& c) { return models::lstm_config_to_json(c); }
std::string json_of(const MlpConfig& c) { return models::mlp_config_to_json(c); }
std::string json_of(const ResnetConfig& c) { return models::resnet_config_to_json(c); }
std::string json_of(const VggConfig& c) { return models::vgg_config_to_json(c); }

struct BuildArgs {
  GraphBuilder& builder;
  models::BatchShape shape;
  const models::BuildOptions& options;
};
models::SequenceModel build_of(const BertConfig& c, const BuildArgs& a) {
  return models::build_bert_classifier(a.builder, c, a.shape, a.options);
}
models::SequenceModel build_of(const LstmConfig& c, const BuildArgs& a) {
  return models::build_lstm_classifier(a.builder, c, a.shape, a.options);
}
models::SequenceModel build_of(const MlpConfig& c, const BuildArgs& a) {
  return models::build_mlp_classifier(a.builder, c, a.shape, a.options);
}
models::SequenceModel build_of(const ResnetConfig& c, const BuildArgs& a) {
  return models::build_resnet_classifier(a.builder, c, a.shape, a.options);
}
models::SequenceModel build_of(const VggConfig& c, const BuildArgs& a) {
  return models::build_vgg_classifier(a.builder, c, a.shape, a.options);
}

models::InitRule init_rule_of(const BertConfig& c, const std::string& name, const Shape&) {
  return models::bert_init_rule(c, name);
}
models::InitRule init_rule_of(const LstmConfig& c, const std::string& name, const Shape& shape) {
  return models::lstm_init_rule(c, name, shape);
}
models::InitRule init_rule_of(const MlpConfig& c, const std::string& name, const Shape& shape) {
  return models::mlp_init_rule(c, name, shape);
}
models::InitRule init_rule_of(const ResnetConfig& c, const std::string& name, const Shape& shape) {
  return models::resnet_init_rule(c, name, shape);
}
models::InitRule init_rule_of(const VggConfig& c, const std::string& name, const Shape& shape) {
  return models::vgg_init_rule(c, name, shape);
}

// Parts of a program have about 45 nodes each, forward and backward.
constexpr int64_t kPartsOfLayer = 2;   // of an LSTM above its second
constexpr int64_t kStatesOfPart = 12;  // steps times layers of an LSTM, and their embedding as one

int64_t parts_of(const BertConfig& c, int64_t) { return c.num_hidden_layers; }
int64_t parts_of(const LstmConfig& c, int64_t length) {
  return 1 + length * (c.num_hidden_layers + 1) / kStatesOfPart;
}
int64_t parts_of(const MlpConfig& c, int64_t) {
  return static_cast<int64_t>(c.hidden_sizes.size());
}
int64_t parts_of(const ResnetConfig& c, int64_t) {  // a residual block has half a layer's ops
  return std::accumulate(c.depths.begin(), c.depths.end(), int64_t{3}) / 2;
}
int64_t parts_of(const VggConfig& c, int64_t) {
  return std::accumulate(c.depths.begin(), c.depths.end(), int64_t{3});
}

[[noreturn]] void refuse_key(const char* key, const std::string& model, const std::string& reason) {
  throw Error(ErrorCode::bad_config, key, "'" + model + "' " + reason,
              std::string("leave ") + key + " away");
}

/// Keys of the run configuration that describe a part of some models alone.
void apply_keys(BertConfig& c, const RunConfig& config) {
  if (config.hidden_dropout_prob) {
    c.hidden_dropout_prob = *config.hidden_dropout_prob;
    c.classifier_dropout.reset();
  }
  if (config.attention_probs_dropout_prob)
    c.attention_probs_dropout_prob = *config.attention_probs_dropout_prob;
  if (config.max_seq_length > c.max_position_embeddings) {
    throw Error(ErrorCode::bad_config, "max_seq_length",
                std::to_string(config.max_seq_length) +
                    " is more than the model's position table has rows (" +
                    std::to_string(c.max_position_embeddings) + ")",
                "set max_seq_length to at most " + std::to_string(c.max_position_embeddings));
  }
}
void apply_keys(LstmConfig& c, const RunConfig& config) {
  if (config.hidden_dropout_prob) c.dropout = *config.hidden_dropout_prob;
}
void apply_keys(MlpConfig& c, const RunConfig& config) {
  if (config.hidden_dropout_prob) c.dropout = *config.hidden_dropout_prob;
}
void apply_keys(ResnetConfig& c, const RunConfig& config) {
  if (config.hidden_dropout_prob) refuse_key("hidden_dropout_prob", config.model, "has no dropout");
  if (config.image_size > 0) c.image_size = config.image_size;
  if (!config.stage_blocks.empty()) c.depths = config.stage_blocks;
}
void apply_keys(VggConfig& c, const RunConfig& config) {
  if (config.hidden_dropout_prob) c.dropout = *config.hidden_dropout_prob;
  if (config.image_size > 0) c.image_size = config.image_size;
}

/// Where the file names none: LABEL_0, LABEL_1, ...
std::vector<std::string> label_names(std::vector<std::string> names, int64_t count) {
  for (auto i = static_cast<int64_t>(names.size()); i < count; ++i)
    names.push_back("LABEL_" + std::to_string(i));
  return names;
}

std::string config_path(const std::string& model) {
  if (io::is_folder(model)) return model + "/config.json";
  if (model.ends_with(".json")) return model;
  return {};
}

template <class Config>
void apply_facts(Config& config, const ModelFacts& facts, int64_t num_labels) {
  if constexpr (requires { config.vocab_size; }) {
    if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  }
  if (!facts.labels.empty()) {
    config.labels = facts.labels;
    config.num_labels = static_cast<int64_t>(facts.labels.size());
  } else if (num_labels > 0) {
    if (num_labels != config.num_labels) config.labels.clear();
    config.num_labels = num_labels;
  }
}

/// Refuses keys of the run configuration that would change nothing, or what a file decides.
void check_keys(const RunConfig& config, const Model& model, bool is_preset) {
  if (config.fresh_head && model.weights_folder.empty()) {
    throw Error(ErrorCode::bad_config, "fresh_head",
                "'" + config.model + "' has no trained head: all its weights are fresh",
                "leave fresh_head away");
  }
  const auto is_given = [&](const char* key) {
    return config.source_of(key) != ConfigSource::default_value;
  };
  const bool is_mlp = std::holds_alternative<MlpConfig>(model.config);
  if (!(is_mlp && is_preset) && is_given("hidden_sizes")) {
    throw Error(ErrorCode::bad_config, "hidden_sizes",
                "it describes a fresh mlp; '" + config.model + "' has its own sizes",
                "leave hidden_sizes away, or set model to mlp");
  }
  const bool is_lstm = std::holds_alternative<LstmConfig>(model.config);
  for (const char* key : {"hidden_size", "num_hidden_layers", "embedding_size"}) {
    if (is_lstm && is_preset) break;
    if (!is_given(key)) continue;
    throw Error(ErrorCode::bad_config, key,
                "it describes a fresh lstm; '" + config.model + "' has its own sizes",
                std::string("leave ") + key + " away, or set model to lstm");
  }
  if (model.image_size() == 0 && is_given("image_size"))
    refuse_key("image_size", config.model, "reads no images");
  for (const char* key : {"tokenizer", "vocab_size", "attention_probs_dropout_prob", "text_column",
                          "text_pair_column", "label_column", "max_seq_length"}) {
    if (model.image_size() > 0 && is_given(key)) refuse_key(key, config.model, "reads images");
  }
  if (!model.has_batch_statistics() && config.allow_batch_norm_split)
    refuse_key("allow_batch_norm_split", config.model, "has no batch norm and is split freely");
  if (!std::holds_alternative<ResnetConfig>(model.config) && is_given("stage_blocks"))
    refuse_key("stage_blocks", config.model, "is no residual network");
}

/// What the file says of labels binds the data where a trained head belongs to it.
data::LabelRule label_rule_of(const RunConfig& config, const Model& model, bool has_head) {
  data::LabelRule rule{.model = {}, .is_trained = has_head, .count = config.num_labels};
  std::visit([&](const auto& c) { rule.model = label_names(c.labels, c.num_labels); },
             model.config);
  if (has_head && rule.count > 0 && rule.count != static_cast<int64_t>(rule.model.size())) {
    throw Error(ErrorCode::bad_config, "num_labels",
                "the trained head of " + model.weights_folder + " has " +
                    std::to_string(rule.model.size()) + " labels, not " +
                    std::to_string(rule.count),
                "leave num_labels away, or set fresh_head to train a new head");
  }
  return rule;
}

/// Compares the folder's weights with its config.json, and says which head the run begins with.
void read_weights(const RunConfig& config, Model& model) {
  bool has_head = false;
  if (!model.weights_folder.empty()) {
    WeightMatch match = match_weights(model);
    model.fresh = std::move(match.fresh);
    model.unused = std::move(match.unused);
    if (match.has_head && config.fresh_head) {
      const std::vector<std::string> head = head_weights(model);
      model.fresh.insert(model.fresh.end(), head.begin(), head.end());
    }
    has_head = match.has_head && !config.fresh_head;
  }
  model.label_rule = label_rule_of(config, model, has_head);
  if (config.fresh_head) model.label_rule.model.clear();
}

}  // namespace

int64_t Model::vocab_size() const {
  return std::visit(
      [](const auto& c) -> int64_t {
        if constexpr (requires { c.vocab_size; }) return c.vocab_size;
        return 0;
      },
      config);
}

int64_t Model::image_size() const {
  return std::visit(
      [](const auto& c) -> int64_t {
        if constexpr (requires { c.image_size; }) return c.image_size;
        return 0;
      },
      config);
}

int64_t Model::image_channels() const {
  return std::visit(
      [](const auto& c) -> int64_t {
        if constexpr (requires { c.num_channels; }) return c.num_channels;
        return 0;
      },
      config);
}

bool Model::has_batch_statistics() const { return std::holds_alternative<ResnetConfig>(config); }

int64_t Model::max_positions() const {
  const auto* bert = std::get_if<BertConfig>(&config);
  return bert == nullptr ? 0 : bert->max_position_embeddings;
}

int64_t Model::program_parts(std::span<const int64_t> lengths) const {
  int64_t parts = 0;
  for (const int64_t length : lengths)
    parts += std::visit([length](const auto& c) { return parts_of(c, length); }, config);
  return parts;
}

int64_t Model::layer_parts() const {
  const auto* lstm = std::get_if<LstmConfig>(&config);
  return lstm == nullptr ? 0 : kPartsOfLayer * std::max<int64_t>(0, lstm->num_hidden_layers - 2);
}

std::string Model::config_json() const {
  return std::visit([](const auto& c) { return json_of(c); }, config);
}

models::SequenceModel Model::build(GraphBuilder& builder, models::BatchShape shape,
                                   const models::BuildOptions& options) const {
  const BuildArgs args{builder, shape, options};
  return std::visit([&](const auto& c) { return build_of(c, args); }, config);
}

std::string Model::stored_name(const std::string& parameter) const {
  const auto* resnet = std::get_if<ResnetConfig>(&config);
  return resnet == nullptr ? parameter : models::resnet_stored_name(*resnet, parameter);
}

models::InitRule Model::init_rule(const std::string& parameter, const Shape& shape) const {
  return std::visit([&](const auto& c) { return init_rule_of(c, parameter, shape); }, config);
}

Model resolve_model(const RunConfig& config, const ModelFacts& facts) {
  Model model;
  model.name = config.model;
  model.max_seq_length = config.max_seq_length;
  const std::string path = config_path(config.model);
  if (path.empty()) {
    model.config = preset_of(config);
  } else {
    refuse_other_weights(config.model);
    model.config = read_config(path, model.ignored);
    if (is_model_folder(config.model)) model.weights_folder = config.model;
    if (model.image_size() > 0) model.normalization = read_normalization(config.model);
  }
  check_keys(config, model, path.empty());
  const std::string where = path.empty() ? "model" : path;
  const auto check = [&](const auto& c) { models::validate(c, where); };
  std::visit([&](auto& c) { apply_keys(c, config); }, model.config);
  std::visit(check, model.config);
  if (path.empty()) {
    model.label_rule.count = config.num_labels;
  } else {
    read_weights(config, model);
  }
  ModelFacts known = facts;
  if (path.empty() && known.vocab_size == 0) known.vocab_size = config.vocab_size;
  if (!model.weights_folder.empty()) {
    if (known.vocab_size > model.vocab_size()) {
      throw Error(ErrorCode::bad_config, "tokenizer",
                  "it has " + std::to_string(known.vocab_size) + " tokens, the model's embedding " +
                      std::to_string(model.vocab_size()),
                  "use the tokenizer that belongs to the model");
    }
    known.vocab_size = 0;  // the file's own size stays
  }
  std::visit([&](auto& c) { apply_facts(c, known, config.num_labels); }, model.config);
  std::visit(check, model.config);
  std::visit([&](const auto& c) { model.labels = label_names(c.labels, c.num_labels); },
             model.config);
  return model;
}

}  // namespace snug::train
