// SPDX-License-Identifier: Apache-2.0
#include "notices/notices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/listed.h"
#include "base/numbers.h"
#include "io/file.h"
#include "io/weight_files.h"
#include "optim/schedule.h"
#include "run_model/model_network.h"

namespace snug::notices {
namespace {

constexpr const char* kSecondOfAdapter = ".lora_B.weight";

/// The names of equal layers as one: "layer.0.bias", "layer.1.bias" is "layer.{0-1}.bias". Each is
/// there, and thousands of layers are a few lines. Numbers rise in the order of the names.
std::vector<std::string> ranges_of(const std::vector<std::string>& names) {
  struct Range {
    std::string before, after;
    int64_t first = 0, last = 0;
  };
  std::vector<Range> ranges;
  std::map<std::string, size_t> open;  // the newest range by what surrounds its number
  for (const std::string& name : names) {
    const size_t begin = name.find_first_of("0123456789");
    const size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    const std::optional<int64_t> number =
        begin == std::string::npos
            ? std::nullopt
            : number_in<int64_t>(std::string_view(name).substr(begin, end - begin));
    if (!number || end - begin > 9) {
      ranges.push_back({.before = name, .after = {}, .first = -1, .last = -1});
      continue;
    }
    const Range own{.before = name.substr(0, begin),
                    .after = name.substr(end),
                    .first = *number,
                    .last = *number};
    const auto [place, is_new] = open.try_emplace(own.before + "*" + own.after, ranges.size());
    if (!is_new && ranges[place->second].last + 1 == own.first) {
      ranges[place->second].last = own.first;
      continue;
    }
    place->second = ranges.size();
    ranges.push_back(own);
  }
  std::vector<std::string> texts;
  for (const Range& range : ranges) {
    std::string number = range.first < 0 ? "" : std::to_string(range.first);
    if (range.last > range.first) number = "{" + number + "-" + std::to_string(range.last) + "}";
    texts.push_back(range.before + number + range.after);
  }
  return texts;
}

}  // namespace

std::string head_notice(const run_model::Model& model) {
  if (!model.traits.text_head.is_snugs()) return {};
  return "the head is Snug's own (snug_head in config.json): snug reads it; of transformers "
         "AutoModel reads the layers below it, AutoModelFor" +
         std::string(model.traits.head.kind == models::HeadKind::token ? "Token" : "Sequence") +
         "Classification would begin a head of its own";
}

std::string kept_notice(const run_model::Model& model) {
  return model.kept_keys.empty() ? std::string()
                                 : model.kept_keys + ", as in training (" + model.config_file + ")";
}

std::string wrapper_notice(const run_model::Model& model) {
  if (model.wrapper.empty()) return {};
  return "names of weights in " + model.weights_folder + " are read without '" + model.wrapper +
         "', which a wrapper put before each";
}

std::string unused_notice(const run_model::Model& model) {
  if (model.unused.empty()) return {};
  return "not used of " + model.weights_folder + ": " + joined(model.unused, kListed);
}

std::vector<std::string> model_notices(const run_model::Model& model) {
  std::vector<std::string> notices;
  for (const std::string& notice : {head_notice(model), kept_notice(model)}) {
    if (!notice.empty()) notices.push_back(notice);
  }
  if (!model.ignored.empty()) {
    notices.push_back("not understood and without effect in " + model.config_file + ": " +
                      joined(model.ignored, kListed));
  }
  if (!model.reinitialized.empty()) {
    const std::vector<std::string> ranges = ranges_of(model.reinitialized);
    notices.push_back("fresh weights by reinit_layers: " + joined(ranges, ranges.size()));
  }
  for (const std::string& name : model.fresh) notices.push_back("fresh weights for " + name);
  for (const std::string& notice : {wrapper_notice(model), unused_notice(model)}) {
    if (!notice.empty()) notices.push_back(notice);
  }
  if (!model.weights_folder.empty()) {
    const std::vector<std::string> entries = io::weight_entries(model.weights_folder);
    if (entries.size() > 1)
      notices.push_back("weights are read from " + entries.front() + " of " + model.weights_folder +
                        ", not from " +
                        joined({entries.begin() + 1, entries.end()}, entries.size()));
    return notices;
  }
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_of(run_model::network_of(model))) {
    if (tensor.kind == TensorKind::parameter) names.push_back(tensor.name);
  }
  if (io::file_exists(model.name) || io::is_folder(model.name)) {
    const std::vector<std::string> ranges = ranges_of(names);
    notices.push_back(model.name + " has no weights: all " + std::to_string(names.size()) +
                      " are fresh: " + joined(ranges, ranges.size()));
  } else {
    notices.push_back(model.name + " is a preset: all " + std::to_string(names.size()) +
                      " weights are fresh");
  }
  return notices;
}

std::optional<Warning> spare_rows_warning(const run_model::Model& model, int64_t tokens) {
  const int64_t rows = model.traits.vocab_size;
  if (model.weights_folder.empty() || tokens >= rows) return {};
  return Warning{.code = "spare_embedding_rows",
                 .text = fmt::format("the tokenizer has {} tokens, the model's embedding {} rows: "
                                     "the last {} are never read (usual where a model was padded, "
                                     "not where a vocabulary was cut)",
                                     tokens, rows, rows - tokens),
                 .count = rows - tokens,
                 .share = static_cast<double>(rows - tokens) / static_cast<double>(rows)};
}

std::string resize_notice(const RunConfig& config, const run_model::Model& model) {
  if (!config.resize_embeddings) return {};
  if (model.resized_from == 0)
    return "resize_embeddings adds nothing: the model has a row for every token";
  std::string text = fmt::format(
      "the word embeddings have {} rows in place of {}: one for each token that only the tokenizer "
      "has, the mean of the others",
      model.traits.vocab_size, model.resized_from);
  if (!model.lora.is_on() || model.resized.empty()) return text;
  const std::string& weight = model.resized.front();
  const std::string module = weight.substr(0, weight.rfind('.'));
  const std::string name = module.substr(module.rfind('.') + 1);
  const auto& saved = model.lora.modules_to_save;
  if (std::find(saved.begin(), saved.end(), name) != saved.end()) return text;
  return text +
         fmt::format("; beside adapters they stay that, unless modules_to_save of lora has {}",
                     name);
}

std::optional<Warning> warmup_warning(const RunConfig& config, int64_t updates) {
  const int64_t warmup = optim::resolve_warmup(config.warmup_steps, config.warmup_ratio, updates);
  if (updates <= 0 || warmup < updates) return {};
  const char* const key = config.warmup_steps > 0 ? "warmup_steps" : "warmup_ratio";
  return Warning{.code = "long_warmup",
                 .text = fmt::format("{} {} in a run of {} updates: the learning rate rises to the "
                                     "end and never reaches {:.3g}",
                                     key, config.get(key), updates, config.learning_rate),
                 .count = warmup,
                 .share = static_cast<double>(warmup) / static_cast<double>(updates)};
}

std::vector<Warning> frozen_warnings(const run_model::Model& model,
                                     const std::vector<TensorInfo>& weights) {
  std::vector<std::string> fresh;  // frozen, and as random as they begin
  std::vector<std::string> idle;   // adapters whose B stays 0: they never add anything
  int64_t parameters = 0;
  int64_t adapters = 0;
  for (const TensorInfo& weight : weights) {
    if (weight.kind != TensorKind::parameter) continue;
    ++parameters;
    const bool is_second = weight.name.ends_with(kSecondOfAdapter);
    adapters += is_second ? 1 : 0;
    if (weight.is_trained) continue;
    if (is_second && model.adapter_folder.empty()) idle.push_back(weight.name);
    const bool is_fresh =
        model.weights_folder.empty() ||
        std::find(model.fresh.begin(), model.fresh.end(), weight.name) != model.fresh.end();
    if (is_fresh && !is_adapter_name(weight.name)) fresh.push_back(weight.name);
  }
  std::vector<Warning> warnings;
  const auto add = [&](const char* code, const std::vector<std::string>& names, int64_t whole,
                       const std::string& text) {
    if (names.empty()) return;
    warnings.push_back({.code = code,
                        .text = fmt::format("freeze leaves {} of {} {}: {}", names.size(), whole,
                                            text, joined(ranges_of(names), kListed)),
                        .count = static_cast<int64_t>(names.size()),
                        .share = static_cast<double>(names.size()) / static_cast<double>(whole)});
  };
  add("frozen_fresh_weights", fresh, parameters,
      "weights fresh and untrained, as random as they begin");
  add("idle_adapters", idle, adapters,
      "adapters as they begin, and an adapter whose B is 0 trains nothing");
  return warnings;
}

}  // namespace snug::notices
