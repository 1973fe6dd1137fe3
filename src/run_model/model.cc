// SPDX-License-Identifier: Apache-2.0
#include "run_model/model.h"

#include <string_view>
#include <utility>

#include "snug/error.h"

namespace snug::run_model {
namespace {

constexpr int64_t kSamplesPerPart = 12;  // a mask forward and backward, and a sum

void check_length(const RunConfig& config, const Model& model) {
  const int64_t most = model.traits.max_positions;
  if (most == 0 || config.max_seq_length <= most) return;
  throw Error(ErrorCode::bad_config, "max_seq_length",
              std::to_string(config.max_seq_length) +
                  " is more than the model's position table has rows (" + std::to_string(most) +
                  ")",
              "set max_seq_length to at most " + std::to_string(most));
}

// Files of the first years call a layer norm's weight gamma and its bias beta: TensorFlow's names.
// Every family's do, and no other norm's, as transformers reads them. Empty: there is no such name.
std::string old_norm_name(const std::string& name) {
  for (const auto& [today, old] :
       {std::pair<std::string_view, std::string_view>{"weight", "gamma"}, {"bias", "beta"}}) {
    if (name.ends_with("LayerNorm." + std::string(today)))
      return name.substr(0, name.size() - today.size()) + std::string(old);
  }
  return {};
}

void begin_resize(const RunConfig& config, int64_t tokens, Model& model) {
  const std::string rows = std::to_string(model.traits.vocab_size);
  if (!config.resize_embeddings) {
    throw Error(ErrorCode::bad_config, "tokenizer",
                "it has " + std::to_string(tokens) + " tokens, the model's embedding " + rows,
                "use the tokenizer that belongs to the model, or set resize_embeddings to add rows "
                "for the others");
  }
  if (config.frozen_dtype != "float32") {
    throw Error(ErrorCode::bad_config, "resize_embeddings",
                "there are new rows, and frozen_dtype stores what the folder has",
                "omit frozen_dtype");
  }
  if (!model.adapter_folder.empty()) {
    throw Error(ErrorCode::bad_config, "resize_embeddings",
                "the adapters of " + model.adapter_folder + " belong to " + rows + " rows",
                "begin with lora, or use the tokenizer that belongs to the adapters");
  }
  model.resized_from = model.traits.vocab_size;
}

}  // namespace

models::ProgramSize Model::size(int64_t length) const {
  models::ProgramSize size = architecture->size(length);
  const models::TextHead& head = traits.text_head;
  if (head != models::TextHead()) size.parts += 1 + head.multi_sample_dropout / kSamplesPerPart;
  return size;
}

std::string Model::config_json() const { return architecture->config_json(); }

std::string Model::stored_name(const std::string& parameter) const {
  return architecture->stored_name(parameter);
}

std::vector<std::string> Model::spellings(const std::string& parameter) const {
  std::vector<std::string> names{stored_name(parameter), parameter};
  const std::string& prefix = *family().info().prefix;
  if (!prefix.empty() && names[0].starts_with(prefix))
    names.push_back(names[0].substr(prefix.size()));
  for (size_t i = 0, count = names.size(); i < count; ++i) {
    const std::string old = old_norm_name(names[i]);
    if (!old.empty()) names.push_back(old);
  }
  return names;
}

models::WeightRole Model::role(const std::string& parameter) const {
  return family().role(parameter);
}

InitRule Model::init_rule(const std::string& parameter, const Shape& shape) const {
  return architecture->init_rule(parameter, shape);
}

std::vector<std::string> Model::label_names() const {
  std::vector<std::string> names = traits.labels;
  for (auto i = static_cast<int64_t>(names.size()); i < traits.num_labels; ++i)
    names.push_back("LABEL_" + std::to_string(i));
  return names;
}

void Model::set_architecture(models::ArchitecturePtr changed) {
  changed->check(config_file.empty() ? "model" : config_file);
  architecture = std::move(changed);
  traits = architecture->traits();
}

void fit_model(Model& model, const RunConfig& config, ModelFacts facts) {
  check_length(config, model);
  model.limits = {.max_length = config.max_seq_length, .overlong = {}, .stride = config.stride};
  // What of the others keeps a text does so at its beginning.
  if (config.overlong == "tail" || config.overlong == "head_tail" || config.overlong == "window")
    model.limits.overlong = config.overlong;
  if (facts.num_labels == 0) facts.num_labels = config.num_labels;
  if (model.config_file.empty() && facts.vocab_size == 0) facts.vocab_size = config.vocab_size;
  if (!model.config_file.empty()) facts.pad_token_id.reset();
  if (!model.weights_folder.empty()) {
    if (facts.vocab_size <= model.traits.vocab_size) {
      facts.vocab_size = 0;  // the file's own size stays
    } else {
      begin_resize(config, facts.vocab_size, model);
    }
  }
  model.set_architecture(model.architecture->with_facts(facts));
  model.labels = model.label_names();
}

}  // namespace snug::run_model
