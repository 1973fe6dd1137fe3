// SPDX-License-Identifier: Apache-2.0
#include "train/model.h"

#include <algorithm>

#include "io/file.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "snug/error.h"
#include "train/engine.h"

namespace snug::train {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;

std::variant<models::BertConfig, models::MlpConfig> read_config(const std::string& path,
                                                                std::vector<std::string>& ignored) {
  const std::string text = io::read_all(path, kMaxConfigBytes);
  const std::string type = io::parse_json(text, path).get_string("model_type", "bert");
  if (type == "bert") return models::bert_config_from_json(text, path, &ignored);
  if (type == "mlp") return models::mlp_config_from_json(text, path, &ignored);
  throw Error(ErrorCode::bad_config, path, "model_type '" + type + "' is not supported",
              "bert and mlp are");
}

std::string config_path(const std::string& model) {
  if (io::is_folder(model)) return model + "/config.json";
  if (model.ends_with(".json")) return model;
  return {};
}

template <class Config>
void apply(Config& config, const ModelFacts& facts, int64_t num_labels) {
  if (facts.vocab_size > 0) config.vocab_size = facts.vocab_size;
  if (!facts.labels.empty()) {
    config.labels = facts.labels;
    config.num_labels = static_cast<int64_t>(facts.labels.size());
  } else if (num_labels > 0) {
    if (num_labels != config.num_labels) config.labels.clear();
    config.num_labels = num_labels;
  }
}

/// Weights that belong to the task rather than to the pretrained encoder.
bool may_start_fresh(const std::string& name) {
  return name.starts_with("classifier.") || name.starts_with("bert.pooler.");
}

/// Older files and bare encoders: "gamma"/"beta" for layer norms, no "bert." prefix.
const io::TensorInfo* find_weight(const io::SafetensorsModel& file, const std::string& name) {
  std::vector<std::string> spellings{name};
  if (name.starts_with("bert.")) spellings.push_back(name.substr(5));
  for (const std::string& spelling : std::vector<std::string>(spellings)) {
    const size_t norm = spelling.find("LayerNorm.");
    if (norm == std::string::npos) continue;
    const bool is_weight = spelling.ends_with("weight");
    spellings.push_back(spelling.substr(0, norm + 10) + (is_weight ? "gamma" : "beta"));
  }
  for (const std::string& spelling : spellings) {
    if (const io::TensorInfo* found = file.find(spelling)) return found;
  }
  return nullptr;
}

}  // namespace

int64_t Model::vocab_size() const {
  return std::visit([](const auto& c) { return c.vocab_size; }, config);
}

int64_t Model::max_positions() const {
  const auto* bert = std::get_if<models::BertConfig>(&config);
  return bert == nullptr ? 0 : bert->max_position_embeddings;
}

int64_t Model::layers() const {
  if (const auto* bert = std::get_if<models::BertConfig>(&config)) return bert->num_hidden_layers;
  return static_cast<int64_t>(std::get<models::MlpConfig>(config).hidden_sizes.size());
}

std::string Model::config_json() const {
  if (const auto* bert = std::get_if<models::BertConfig>(&config))
    return models::bert_config_to_json(*bert);
  return models::mlp_config_to_json(std::get<models::MlpConfig>(config));
}

models::SequenceModel Model::build(GraphBuilder& builder, models::BatchShape shape,
                                   const models::BuildOptions& options) const {
  if (const auto* bert = std::get_if<models::BertConfig>(&config)) {
    return models::build_bert_classifier(builder, *bert, shape, options);
  }
  return models::build_mlp_classifier(builder, std::get<models::MlpConfig>(config), shape, options);
}

models::InitRule Model::init_rule(const std::string& parameter, const Shape& shape) const {
  if (const auto* bert = std::get_if<models::BertConfig>(&config))
    return models::bert_init_rule(*bert, parameter);
  return models::mlp_init_rule(std::get<models::MlpConfig>(config), parameter, shape);
}

bool is_model_folder(const std::string& model) {
  return io::is_folder(model) && (io::file_exists(model + "/model.safetensors") ||
                                  io::file_exists(model + "/model.safetensors.index.json"));
}

Model resolve_model(const RunConfig& config, const ModelFacts& facts) {
  Model model{
      .name = config.model, .config = {}, .weights_folder = {}, .labels = {}, .ignored = {}};
  const std::string path = config_path(config.model);
  ModelFacts known = facts;
  if (!path.empty()) {
    model.config = read_config(path, model.ignored);
    if (is_model_folder(config.model)) {
      model.weights_folder = config.model;
      if (known.vocab_size > model.vocab_size()) {
        throw Error(ErrorCode::bad_config, "tokenizer",
                    "it has " + std::to_string(known.vocab_size) +
                        " tokens, the model's embedding " + std::to_string(model.vocab_size()),
                    "use the tokenizer that belongs to the model");
      }
      known.vocab_size = 0;  // the file's own size stays
    }
  } else if (config.model == "mlp") {
    models::MlpConfig mlp;
    mlp.hidden_sizes = config.hidden_sizes;
    model.config = mlp;
  } else {
    model.config = models::bert_preset(config.model);
  }
  const bool is_mlp = std::holds_alternative<models::MlpConfig>(model.config);
  if (!(is_mlp && path.empty()) &&
      config.source_of("hidden_sizes") != ConfigSource::default_value) {
    throw Error(ErrorCode::bad_config, "hidden_sizes",
                "it describes a fresh mlp; '" + config.model + "' has its own sizes",
                "leave hidden_sizes away, or set model to mlp");
  }
  if (path.empty() && known.vocab_size == 0) known.vocab_size = config.vocab_size;
  std::visit([&](auto& c) { apply(c, known, config.num_labels); }, model.config);
  if (auto* bert = std::get_if<models::BertConfig>(&model.config)) {
    if (config.hidden_dropout_prob) {
      bert->hidden_dropout_prob = *config.hidden_dropout_prob;
      bert->classifier_dropout.reset();
    }
    if (config.attention_probs_dropout_prob)
      bert->attention_probs_dropout_prob = *config.attention_probs_dropout_prob;
    if (config.max_seq_length > bert->max_position_embeddings) {
      throw Error(ErrorCode::bad_config, "max_seq_length",
                  std::to_string(config.max_seq_length) +
                      " is more than the model's position table has rows (" +
                      std::to_string(bert->max_position_embeddings) + ")",
                  "set max_seq_length to at most " + std::to_string(bert->max_position_embeddings));
    }
  } else if (config.hidden_dropout_prob) {
    std::get<models::MlpConfig>(model.config).dropout = *config.hidden_dropout_prob;
  }
  std::visit([&](const auto& c) { models::validate(c, path.empty() ? "model" : path); },
             model.config);
  std::visit(
      [&](const auto& c) {
        model.labels = c.labels;
        for (int64_t i = static_cast<int64_t>(model.labels.size()); i < c.num_labels; ++i) {
          model.labels.push_back("LABEL_" + std::to_string(i));
        }
      },
      model.config);
  return model;
}

std::vector<std::string> initialize_weights(const Model& model, const Engine& engine, uint64_t seed,
                                            int threads) {
  std::vector<std::string> fresh;
  std::optional<io::SafetensorsModel> file;
  if (!model.weights_folder.empty()) file.emplace(model.weights_folder);
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (entry.kind != ValueKind::parameter) continue;
    const std::span<float> values = engine.values<float>(name);
    if (file) {
      const io::TensorInfo* found = find_weight(*file, name);
      if (found != nullptr && found->shape == entry.type.shape) {
        file->read_f32(found->name, values);
        continue;
      }
      if (!may_start_fresh(name)) {
        throw Error(ErrorCode::bad_data, model.weights_folder,
                    found == nullptr ? "the weights have no '" + name + "'"
                                     : "'" + name + "' has shape " + to_string(found->shape) +
                                           ", config.json says " + to_string(entry.type.shape),
                    "the folder's config.json and model.safetensors must belong together");
      }
      fresh.push_back(name);
    }
    models::initialize(values, entry.type.shape, model.init_rule(name, entry.type.shape), name,
                       seed, threads);
  }
  return fresh;
}

}  // namespace snug::train
