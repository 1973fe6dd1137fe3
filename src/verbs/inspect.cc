// SPDX-License-Identifier: Apache-2.0
// inspect_run: what a model and a data set are made of, before any training.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/float_mode.h"
#include "base/stop.h"
#include "base/units.h"
#include "run_model/model_network.h"
#include "run_model/read_model.h"
#include "run_rows/input.h"
#include "run_rows/streams.h"
#include "snug/error.h"
#include "tasks/registry.h"
#include "train/run_recipe.h"
#include "verbs/prepare.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

Json model_json(const run_model::Model& model, SessionOptions options) {
  options.lora = model.lora;
  options.frozen_dtype = "float32";
  options.weight_dtype = "float32";
  Json json = {{"name", model.name},
               {"vocab_size", model.traits.vocab_size},
               {"labels", model.labels.size()}};
  int64_t total = 0;
  int64_t trained = 0;
  Json list = Json::array();
  for (const TensorInfo& weight : tensors_of(run_model::network_of(model), options)) {
    if (weight.kind != TensorKind::parameter) continue;
    const int64_t elements = element_count(weight.shape);
    total += elements;
    trained += weight.is_trained ? elements : 0;
    list.push_back({{"name", weight.name},
                    {"shape", weight.shape},
                    {"bytes", elements * 4},
                    {"is_trained", weight.is_trained}});
  }
  json["parameters"] = total;
  json["trainable_parameters"] = trained;
  json["weight_bytes"] = total * 4;
  json["ignored_config_fields"] = model.ignored;
  json["fresh_weights"] = model.fresh;
  json["unused_tensors"] = model.unused;
  json["weights"] = std::move(list);
  return json;
}

// Consecutive weights of one layer, or of equal layers.
struct Group {
  std::string first;  // "bert.encoder.layer.0"
  std::string last;
  int64_t layers = 1;
  int64_t weights = 0;  // of one layer
  int64_t parameters = 0;
  int64_t trained = 0;
  std::string members;  // names behind the layer's, shapes, frozen or not: what makes layers equal
};

// "bert.encoder.layer.3" of any weight in that layer; two names where none is a number.
std::string layer_of(const std::string& weight) {
  int dots = 0;
  for (size_t begin = 0; begin < weight.size();) {
    const size_t end = std::min(weight.find('.', begin), weight.size());
    const bool is_number = weight.find_first_not_of("0123456789", begin) >= end;
    if (is_number || end == weight.size()) return weight.substr(0, is_number ? end : begin - 1);
    if (++dots == 2 && weight.find_first_of("0123456789", end) == std::string::npos)
      return weight.substr(0, end);
    begin = end + 1;
  }
  return weight;
}

std::vector<Group> groups_of(const Json& weights) {
  std::vector<Group> layers;
  for (const Json& weight : weights) {
    const std::string name = weight["name"].get<std::string>();
    const std::string layer = layer_of(name);
    if (layers.empty() || layers.back().first != layer) {
      layers.emplace_back();
      layers.back().first = layers.back().last = layer;
    }
    Group& group = layers.back();
    const int64_t parameters = weight["bytes"].get<int64_t>() / 4;
    const bool is_trained = weight["is_trained"].get<bool>();
    ++group.weights;
    group.parameters += parameters;
    group.trained += is_trained ? parameters : 0;
    group.members +=
        name.substr(layer.size()) + weight["shape"].dump() + (is_trained ? "t " : "f ");
  }
  std::vector<Group> groups;
  for (Group& layer : layers) {
    if (!groups.empty() && groups.back().members == layer.members) {
      groups.back().last = layer.last;
      ++groups.back().layers;
    } else {
      groups.push_back(std::move(layer));
    }
  }
  return groups;
}

std::string layers_text(const Json& weights) {
  std::string out =
      fmt::format("  {:<44} {:>8} {:>12} {:>11}\n", "layers", "weights", "parameters", "bytes");
  for (const Group& group : groups_of(weights)) {
    const std::string name =
        group.layers == 1 ? group.first
                          : fmt::format("{} to {} ({} equal, each)", group.first,
                                        group.last.substr(group.last.rfind('.') + 1), group.layers);
    const std::string frozen = group.trained == 0                 ? "  frozen"
                               : group.trained < group.parameters ? "  partly frozen"
                                                                  : "";
    out += fmt::format("  {:<44} {:>8} {:>12} {:>11}{}\n", name, group.weights, group.parameters,
                       format_bytes(group.parameters * 4), frozen);
  }
  return out + "  (--weights lists every weight)\n";
}

std::string weights_text(const Json& weights) {
  std::string out;
  for (const Json& weight : weights) {
    out += fmt::format("  {:<54} {:>12} {:>10}{}\n", weight["name"].get<std::string>(),
                       weight["shape"].dump(), format_bytes(weight["bytes"].get<int64_t>()),
                       weight["is_trained"].get<bool>() ? "" : "  frozen");
  }
  return out;
}

std::string model_text(const Json& json, bool lists_weights) {
  std::string out = fmt::format(
      "model {}\n  {} parameters ({} trained), {} of weights, vocabulary {}, {} labels\n",
      json["name"].get<std::string>(), json["parameters"].get<int64_t>(),
      json["trainable_parameters"].get<int64_t>(),
      format_bytes(json["weight_bytes"].get<int64_t>()), json["vocab_size"].get<int64_t>(),
      json["labels"].get<int64_t>());
  for (const Json& field : json["ignored_config_fields"])
    out += fmt::format("  config.json: '{}' is ignored\n", field.get<std::string>());
  for (const Json& weight : json["fresh_weights"])
    out += fmt::format("  {} is not in the folder: fresh\n", weight.get<std::string>());
  for (const Json& tensor : json["unused_tensors"])
    out += fmt::format("  {} of the folder is not used\n", tensor.get<std::string>());
  return out + (lists_weights ? weights_text(json["weights"]) : layers_text(json["weights"]));
}

}  // namespace

std::string inspect_run(const RunConfig& given, bool is_json, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  RunConfig config = given;
  const StopScope stop({.cancel = options.cancel, .deadline = {}, .work = "inspect"});
  if (config.model.empty() && config.train_file.empty() && config.validation_file.empty() &&
      config.test_file.empty()) {
    throw Error(ErrorCode::bad_config, "model", "there is nothing to inspect",
                "set model, train_file, or both");
  }
  RunConfig scratch = config;
  scratch.output_dir.clear();
  const run_rows::WorkFolder work(scratch);
  const run_rows::CopiedStreams streams(
      config, options, work,
      {&RunConfig::train_file, &RunConfig::validation_file, &RunConfig::test_file},
      run_rows::CopiedStreams::Copies::are_removed);
  Json json = Json::object();
  std::string text;
  run_model::Model model;
  const run_model::TaskOfLabels of_labels = [&]() -> const tasks::Task& {
    return config.train_file.empty() ? tasks::default_task()
                                     : run_rows::task_of_labels(config, options);
  };
  if (!config.model.empty()) {
    model = run_model::read_model(
        config, config.train_file.empty() ? run_model::TaskOfLabels() : of_labels);
    run_model::fit_model(model, config, {});
  }
  const tasks::Task* named = tasks::find_task(config.task);
  run_rows::InspectRequest request{.config = config,
                                   .options = options,
                                   .task = model.task != nullptr ? *model.task
                                           : named != nullptr    ? *named
                                                                 : of_labels(),
                                   .model = nullptr,
                                   .folder = work.path()};
  if (!config.model.empty()) request.model = &model;
  for (const std::string& file : {config.train_file, config.validation_file, config.test_file})
    if (!file.empty()) request.files.push_back(file);
  run_rows::Inspection found;
  if (!request.files.empty()) {
    const run_rows::Input& input =
        request.model == nullptr ? run_rows::text_input() : run_rows::input_of(model);
    found = input.inspect(request);
    json["data"] = found.files;
    text += found.text;
  }
  if (!config.model.empty()) {
    run_model::fit_model(model, config,
                         {.vocab_size = found.vocab_size,
                          .labels = found.labels.names(),
                          .num_labels = found.num_labels});
    json["model"] = model_json(model, train::session_options_of(train::training_spec(config, 0)));
    text += model_text(json["model"], options.lists_weights);
  }
  return is_json ? json.dump(2) : text;
}

}  // namespace snug
