// SPDX-License-Identifier: Apache-2.0
#include "run_model/read_model.h"

#include <algorithm>
#include <set>

#include "base/shell.h"
#include "config/option.h"
#include "data/class_names.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "models/registry.h"
#include "models/text_head.h"
#include "run_model/adapter_folder.h"
#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "run_model/naming_memory.h"
#include "run_model/other_weights.h"
#include "run_model/row_kind.h"
#include "snug/error.h"
#include "tasks/registry.h"

namespace snug::run_model {
namespace {

constexpr int64_t kMaxModelConfigBytes = 16 << 20;

/// The configuration of a model whose head will be a new one: of its labels the number only.
std::string without_label_names(const io::JsonValue& json) {
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value) {
    text += (text.empty() ? "{" : ", ") + io::quote_json(key) + ": " + value;
  };
  for (const std::string& key : json.keys()) {
    if (key != "id2label" && key != "label2id" && key != "num_labels")
      add(key, json.find_or_null(key)->dump());
  }
  const auto names = json.find("id2label");
  const auto count = json.find("num_labels");
  if (names && names->is_object() && names->size() > 0) {
    add("num_labels", std::to_string(names->size()));
  } else if (count) {
    add("num_labels", count->dump());
  }
  return text + "}";
}

/// Whether labels had names that a fresh head does without.
bool read_config(bool has_fresh_head, Model& model) {
  const std::string& path = model.config_file;
  std::string text = io::read_all(path, kMaxModelConfigBytes);
  const io::JsonValue json = io::parse_json(text, path);
  const std::string type = json.get_string("model_type", "");
  const bool drops_names = has_fresh_head && (json.has("id2label") || json.has("label2id"));
  if (drops_names) text = without_label_names(json);
  const models::ModelFamily* family = models::family_of_type(type);
  if (family == nullptr) {
    throw Error(ErrorCode::bad_config, path, "model_type '" + type + "' is not supported",
                models::names_of(models::model_families()) + " are");
  }
  model.architecture = family->read(text, path, &model.ignored);
  for (const std::string& field : model.ignored) {
    if (field == models::kSnugHead)
      throw Error(ErrorCode::bad_config, path,
                  field + " describes a head that " + *family->info().name + " does not have",
                  "use the config.json that was saved with these weights");
  }
  return drops_names;
}

/// The keys of the run; a trained head has its own pooling.
void apply_keys(const RunConfig& config, Model& model) {
  const models::TextHead own = model.traits.text_head;
  model.set_architecture(model.architecture->with_keys(config));
  const models::TextHead& asked = model.traits.text_head;
  const bool is_other = asked.pooling != own.pooling || asked.pooling_layers != own.pooling_layers;
  if (!is_other || !own.is_snugs() || model.weights_folder.empty() || config.fresh_head) return;
  const auto text = [](const models::TextHead& head) {
    return "pooling " + std::string(models::pooling_name(head.pooling)) + " of " +
           std::to_string(head.pooling_layers) + " layers";
  };
  throw Error(
      ErrorCode::bad_config, asked.pooling != own.pooling ? "pooling" : "pooling_layers",
      "the trained head of " + model.weights_folder + " has " + text(own) + ", not " + text(asked),
      "omit pooling and pooling_layers, or set fresh_head to train a new head");
}

/// Null where model is no preset.
models::ArchitecturePtr find_preset(const RunConfig& config) {
  for (const models::ModelFamily* family : models::model_families()) {
    if (models::ArchitecturePtr preset = family->preset(config)) return preset;
  }
  return nullptr;
}

void take_preset(const RunConfig& config, Model& model) {
  model.architecture = find_preset(config);
  if (model.architecture != nullptr) return;
  if (io::is_dangling(config.model)) io::throw_dangling(config.model);
  std::string presets;
  for (const models::ModelFamily* family : models::model_families())
    presets += (presets.empty() ? "" : ", ") + *family->info().presets_help;
  throw Error(ErrorCode::bad_config, "model",
              "'" + config.model + "' is neither a folder that exists nor a preset",
              "Snug downloads nothing: get the model's folder (config.json, model.safetensors, "
              "tokenizer.json) and give its path. The presets, with fresh weights, are " +
                  presets);
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& model,
                             const std::string& reason) {
  throw Error(ErrorCode::bad_config, key, "'" + model + "' " + reason, "omit " + key);
}

std::string config_path(const std::string& model) {
  if (io::is_folder(model)) return model + "/config.json";
  if (model.ends_with(".json")) return model;
  return {};
}

/// An output folder is easily called like the preset that it came from.
void check_folder(const RunConfig& config, const std::string& folder) {
  if (!io::is_folder(folder) || io::has_file(folder + "/config.json")) return;
  std::string hint = "a model's folder has config.json, its weights and its tokenizer";
  if (find_preset(config) != nullptr) {
    hint = "a folder goes before the preset of its name: move it, or run elsewhere";
  } else if (const std::string inner = model_folder_in(folder); !inner.empty()) {
    hint = "give --model " + shell_word(inner);
  }
  throw Error(ErrorCode::bad_config, "model", "the folder '" + folder + "' has no config.json",
              hint);
}

bool is_given(const RunConfig& config, const std::string& key) {
  const config::Option& option = *config::find_option(key);
  return config.source_of(key) != ConfigSource::default_value ||
         option.get(config) != option.info.default_value;
}

/// A key that families declare goes to those only, and what a file decides is no key's.
void check_family_key(const RunConfig& config, const Model& model, const std::string& key) {
  const models::ModelKey* own = models::find_key(model.family(), key);
  if (own != nullptr && (!own->is_of_fresh || model.config_file.empty())) return;
  std::vector<const models::ModelFamily*> takers = models::families_with_key(key);
  const bool is_of_fresh = models::find_key(*takers.front(), key)->is_of_fresh;
  const std::string names = models::names_of(takers);
  if (!is_of_fresh) refuse_key(key, config.model, "does not take it; it is for " + names);
  throw Error(ErrorCode::bad_config, key,
              "it describes a fresh " + names + "; '" + config.model + "' has its own sizes",
              "omit " + key + ", or set model to " + names);
}

/// Keys that other tasks alone have a use for, and a metric that this one does not have.
void check_task_keys(const RunConfig& config, const tasks::Task& task) {
  const std::vector<std::string>& own = *task.keys;
  for (const tasks::Task* other : tasks::all_tasks()) {
    for (const std::string& key : *other->keys) {
      if (std::find(own.begin(), own.end(), key) != own.end() || !is_given(config, key)) continue;
      throw Error(ErrorCode::bad_config, key, "the task " + *task.name + " has no use for it",
                  "omit " + key + ", or set task to " + *other->name);
    }
  }
  if (config.num_labels > 0 && config.num_labels < *task.least_labels) {
    throw Error(ErrorCode::bad_config, "num_labels",
                std::to_string(config.num_labels) + " is too small for the task " + *task.name,
                "give at least " + std::to_string(*task.least_labels));
  }
  if (tasks::find_metric(task, config.metric_for_best_model) != nullptr) return;
  std::string names = "loss";
  for (const tasks::Metric& metric : *task.metrics) names += ", " + metric.name;
  throw Error(ErrorCode::bad_config, "metric_for_best_model",
              "the task " + *task.name + " has no '" + config.metric_for_best_model + "'",
              "it has " + names);
}

bool can_have_rows(const tasks::Task& task, const Model& model) {
  const auto& inputs = *task.inputs;
  return std::find(inputs.begin(), inputs.end(), *model.family().info().input) != inputs.end();
}

/// What the model is for: what the user says, else its head, else its labels where more than one
/// task has such rows.
const tasks::Task& choose_task(const RunConfig& config, const Model& model,
                               const TaskOfLabels& of_labels) {
  const tasks::Task* given = tasks::find_task(config.task);  // null: auto
  const models::Head& head = model.traits.head;
  const bool is_said = !head.is_implied || !of_labels || has_trained_head(model);
  const tasks::Task* own = config.fresh_head || !is_said ? nullptr : tasks::task_of_head(head);
  if (given != nullptr && own != nullptr && own != given && !model.weights_folder.empty()) {
    throw Error(ErrorCode::bad_config, "task",
                "config.json of " + model.weights_folder + " says that its head is for " +
                    *own->name + ", not " + *given->name,
                "omit task, or set fresh_head to train a new head");
  }
  if (given != nullptr) return *given;
  if (own != nullptr) return *own;
  const auto& all = tasks::all_tasks();
  const auto count = std::count_if(
      all.begin(), all.end(), [&](const tasks::Task* task) { return can_have_rows(*task, model); });
  return of_labels && count > 1 ? of_labels() : tasks::default_task();
}

/// What the folder keeps of its task, where the run does not say it anew: a threshold that was
/// chosen belongs to the weights. `model.architecture` says it on.
void take_settings(const RunConfig& config, Model& model) {
  RunConfig kept = config;
  const std::vector<std::string>& keys = *model.task->kept;
  if (!config.fresh_head && !model.config_file.empty()) {
    for (const auto& [key, value] : model.traits.head.settings) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        throw Error(ErrorCode::bad_data, model.config_file,
                    std::string("\"") + models::kSnugTask + "\" holds " + key +
                        ", which the task " + *model.task->name + " does not keep",
                    "take " + key + " out of the file");
      if (is_given(config, key)) continue;
      try {
        kept.set(key, value);
        kept.validate();
      } catch (const Error& error) {
        throw Error(ErrorCode::bad_data, model.config_file, error.what(),
                    "mend \"" + std::string(models::kSnugTask) + "\" in the file");
      }
      model.kept_keys += (model.kept_keys.empty() ? "" : ", ") + key + ": " + value;
    }
  }
  model.settings = tasks::settings_of(kept);
  models::Head head = *model.task->head;
  for (const std::string& key : keys) {
    const config::Option& option = *config::find_option(key);
    if (option.get(kept) != option.info.default_value) head.settings[key] = option.get(kept);
  }
  model.architecture = model.architecture->with_facts({.head = std::move(head)});
}

/// Gives the model its task. Throws Error{bad_config} where it cannot have that.
void take_task(const RunConfig& config, const TaskOfLabels& of_labels, Model& model) {
  const tasks::Task& task = choose_task(config, model, of_labels);
  model.task = &task;
  check_task_keys(config, task);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::bad_config, "task",
                "'" + config.model + "' " + reason + " the task " + *task.name,
                "set task to " + *tasks::default_task().name + ", or choose another model");
  };
  if (task.rows->has_words && !config.text_pair_column.empty()) {
    throw Error(ErrorCode::bad_config, "text_pair_column",
                "the task " + *task.name + " has one list of words a row", "omit text_pair_column");
  }
  if (!can_have_rows(task, model))
    refuse(row_kind_of(model).reads() + ", whose labels are not for");
  const auto& heads = *model.family().info().heads;
  if (std::find(heads.begin(), heads.end(), task.head->kind) == heads.end())
    refuse("has no head for");
  take_settings(config, model);
}

/// Refuses keys of the run configuration that would change nothing, or what a file decides.
void check_keys(const RunConfig& config, const Model& model, bool drops_names) {
  if (config.fresh_head && model.weights_folder.empty() && !drops_names) {
    throw Error(ErrorCode::bad_config, "fresh_head",
                "'" + config.model + "' has no trained head: all its weights are fresh",
                "omit fresh_head");
  }
  const auto needs_folder = [&](const char* key, bool is_given, const char* what) {
    if (is_given && model.weights_folder.empty())
      throw Error(ErrorCode::bad_config, key,
                  "'" + config.model + "' has no trained " + what + ": all its weights are fresh",
                  std::string("omit ") + key + ", or give a model folder");
  };
  needs_folder("reinit_layers", config.reinit_layers > 0, "layers");
  needs_folder("resize_embeddings", config.resize_embeddings, "embeddings");
  if (config.reinit_layers > 0 && (config.lora.is_on() || !model.adapter_folder.empty()))
    throw Error(ErrorCode::bad_config, "reinit_layers",
                "the layers of a base do not change where adapters are trained",
                "train without lora, or omit reinit_layers");
  const RowKind& kind = row_kind_of(model);
  for (const char* key : kind.foreign_keys()) {
    if (config.source_of(key) != ConfigSource::default_value)
      refuse_key(key, config.model, kind.reads());
  }
  std::set<std::string> checked;
  for (const models::ModelFamily* family : models::model_families()) {
    for (const models::ModelKey& key : *family->info().keys) {
      if (checked.insert(key.name).second && is_given(config, key.name))
        check_family_key(config, model, key.name);
    }
  }
  if (!model.traits.has_batch_statistics && config.allow_batch_norm_split)
    refuse_key("allow_batch_norm_split", config.model, "has no batch norm and is split freely");
}

/// What the file says of labels binds the data where a trained head belongs to it.
data::LabelRule label_rule_of(const RunConfig& config, const Model& model, bool has_head) {
  data::LabelRule rule{
      .model = model.label_names(), .is_trained = has_head, .count = config.num_labels};
  if (has_head && rule.count > 0 && rule.count != static_cast<int64_t>(rule.model.size())) {
    throw Error(ErrorCode::bad_config, "num_labels",
                "the trained head of " + model.weights_folder + " has " +
                    std::to_string(rule.model.size()) + " labels, not " +
                    std::to_string(rule.count),
                "omit num_labels, or set fresh_head to train a new head");
  }
  return rule;
}

/// The order of fresh labels: the key's, else that of the data's classes. A trained head has its
/// own.
void take_label_order(const RunConfig& config, Model& model) {
  constexpr const char* kKey = "label_order";
  const std::vector<std::string>& order = config.label_order;
  data::LabelRule& rule = model.label_rule;
  if (order.empty()) {
    // As Hugging Face's datasets number them.
    if (!rule.is_trained) rule.order = data::class_names_of(config.train_file, config.label_column);
    return;
  }
  if (!rule.is_trained) {
    rule.order = order;
    rule.order_key = kKey;
    return;
  }
  // More labels than the order has were asked for by num_labels.
  const bool is_same = order.size() <= rule.model.size() &&
                       std::equal(order.begin(), order.end(), rule.model.begin());
  if (is_same) return;
  throw Error(ErrorCode::bad_config, kKey,
              "the trained head of " + model.weights_folder + " has the labels " +
                  data::list_labels(rule.model) + ", in this order",
              "omit label_order, or set fresh_head to train a new head for the labels of the "
              "data");
}

/// Compares the folder's weights with its config.json, and says which head the run begins with.
void read_weights(const RunConfig& config, Model& model) {
  bool has_head = false;
  if (!model.weights_folder.empty() && !model.adapter_folder.empty() &&
      adapted_model_config(model.adapter_folder).empty()) {
    // PEFT's folder does not say it, and config.json of the base is as it was.
    if (const int64_t rows = rows_of_larger_table(model); rows > 0) {
      model.set_architecture(model.architecture->with_facts({.vocab_size = rows}));
    }
  }
  if (!model.weights_folder.empty()) {
    WeightMatch match = match_weights(model);
    if (!match.other_head.empty() && !config.fresh_head) {
      throw Error(ErrorCode::bad_data, model.weights_folder,
                  "config.json calls it a " + match.other_head + ", so its " +
                      match.unused.front() + " is no head for the task " + *model.task->name,
                  "set fresh_head to train a new head on its encoder");
    }
    model.fresh = std::move(match.fresh);
    model.unused = std::move(match.unused);
    model.wrapper = std::move(match.wrapper);
    model.beside = std::move(match.beside);
    model.header_bytes = match.header_bytes;
    if (match.has_head && config.fresh_head) {
      const std::vector<std::string> head = head_weights(model);
      model.fresh.insert(model.fresh.end(), head.begin(), head.end());
    }
    has_head = match.has_head && !config.fresh_head;
    if (config.reinit_layers > 0)
      model.reinitialized = weights_of_last_layers(model, config.reinit_layers);
  }
  model.label_rule = label_rule_of(config, model, has_head);
  if (config.fresh_head) model.label_rule.model.clear();
}

// The adapters' folder that the run begins with; empty: none.
std::string adapter_folder(const RunConfig& config) {
  if (config.lora_adapter.empty()) return is_adapter_folder(config.model) ? config.model : "";
  if (is_adapter_folder(config.lora_adapter)) return config.lora_adapter;
  throw Error(ErrorCode::bad_config, "lora_adapter",
              "'" + config.lora_adapter + "' is no folder with " + kAdapterConfig,
              "give best/ or last/ of a run with lora, or a folder that peft saved");
}

// The model that adapters belong to, as the folder of the one that is run.
std::string base_of(const RunConfig& config, const std::string& adapters) {
  const bool is_given = adapters.empty() || adapters != config.model;
  std::string base = is_given ? config.model : read_adapter_config(adapters).base;
  if (adapters.empty() || is_model_folder(base)) return base;
  throw Error(ErrorCode::bad_config, is_given ? "model" : adapters + "/" + kAdapterConfig,
              "the base of the adapters, '" + base + "', is no folder with weights",
              "give --model BASE --lora_adapter " + shell_word(adapters));
}

}  // namespace

void take_adapters(const RunConfig& config, Model& model) {
  if (!model.adapter_folder.empty()) {
    if (config.lora.is_on())
      throw Error(
          ErrorCode::bad_config, "lora",
          "the adapters of " + model.adapter_folder + " say their rank, alpha and maps themselves",
          "omit lora");
    model.lora = match_adapters(model);
  } else {
    model.lora = config.lora;
  }
  model.adapted.clear();
  if (!model.lora.is_on()) return;
  if (model.traits.has_batch_statistics)
    refuse_key("lora", config.model,
               "has batch norm, whose running statistics move and belong to no adapter");
  const std::vector<TensorInfo> weights = tensors_of(network_of(model), {.lora = model.lora});
  std::set<std::string> names;
  for (const TensorInfo& weight : weights) names.insert(weight.name);
  for (const std::string& name : names) {
    if (!is_adapter_name(name) && names.count(adapter_names(name).a) != 0)
      model.adapted.push_back(name);
  }
}

Model read_model(const RunConfig& config, const TaskOfLabels& of_labels) {
  Model model;
  model.name = config.model;
  model.adapter_folder = adapter_folder(config);
  const std::string base = base_of(config, model.adapter_folder);
  model.config_file = config_path(base);
  bool drops_names = false;
  if (model.config_file.empty()) {
    take_preset(config, model);
  } else {
    check_folder(config, base);
    refuse_other_weights(base, config.output_dir);
    // Beside Snug's adapters lies the configuration with the head that they were trained with.
    if (!model.adapter_folder.empty()) {
      const std::string own = adapted_model_config(model.adapter_folder);
      if (!own.empty()) model.config_file = own;
    }
    drops_names = read_config(config.fresh_head, model);
    if (is_model_folder(base)) model.weights_folder = base;
  }
  model.traits = model.architecture->traits();
  if (!model.config_file.empty()) row_kind_of(model).read_folder(config.model, model);
  check_keys(config, model, drops_names);
  take_task(config, of_labels, model);
  apply_keys(config, model);
  check_naming_memory(model);
  if (model.config_file.empty()) {
    model.label_rule.count = config.num_labels;
  } else {
    read_weights(config, model);
  }
  take_label_order(config, model);
  take_adapters(config, model);
  return model;
}

void keep_label_order(const std::string& checkpoint, Model& model) {
  data::LabelRule& rule = model.label_rule;
  if (rule.is_trained || !rule.order.empty()) return;
  const std::string path = checkpoint + "/config.json";
  const std::string text = io::read_all(path, kMaxModelConfigBytes);
  const std::string type = io::parse_json(text, path).get_string("model_type", "");
  if (models::family_of_type(type) != &model.family()) return;  // which is refused (same_model.h)
  std::vector<std::string> names = model.family().read(text, path, nullptr)->traits().labels;
  if (names == rule.model) return;
  while (!names.empty() && names.back() == "LABEL_" + std::to_string(names.size() - 1))
    names.pop_back();
  if (names != data::in_default_order(names)) rule.order = std::move(names);
}

}  // namespace snug::run_model
