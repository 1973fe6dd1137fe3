// SPDX-License-Identifier: Apache-2.0
#include "run_model/adapter_folder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file.h"
#include "run_model/model_network.h"
#include "snug/error.h"

namespace snug::run_model {
namespace {

constexpr const char* kPrefix = "base_model.model.";
constexpr std::string_view kBias = ".bias";
constexpr const char* kBaseBias = ".base_layer.bias";  // of a map that has an adapter

std::string module_of(const std::string& key) { return key.substr(0, key.rfind('.')); }

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string without_end(const std::string& name, std::string_view end) {
  return name.substr(0, name.size() - end.size());
}

// A copy that PEFT writes beside the value under its own name.
bool is_copy(const std::string& tensor, const std::set<std::string>& used) {
  for (const char* part : {".modules_to_save.", ".original_module."}) {
    const size_t at = tensor.find(part);
    if (at == std::string::npos) continue;
    const std::string own =
        tensor.substr(0, at) + "." + tensor.substr(at + std::string_view(part).size());
    if (used.count(own) != 0) return true;
  }
  return false;
}

// PEFT finds modules by the end of their names. It adds the usual names of heads on its own.
void check_saved(const Model& model, const std::vector<std::string>& saved,
                 const std::vector<TensorInfo>& weights) {
  const auto is_there = [&](const std::string& name) {
    if (name == "classifier" || name == "score") return true;
    for (const TensorInfo& weight : weights) {
      std::string module = model.stored_name(weight.name);
      while (module.find('.') != std::string::npos) {
        module = module_of(module);
        if (!name.empty() && module.ends_with(name)) return true;
      }
    }
    return false;
  };
  for (const std::string& name : saved) {
    if (is_there(name)) continue;
    throw Error(ErrorCode::bad_config, model.adapter_folder + "/" + kAdapterConfig,
                "\"modules_to_save\" names '" + name + "', which is no part of the model",
                "give the base that the adapters belong to, or remove the name");
  }
}

// What of modules_to_save is no head, which is trained anyway.
std::vector<std::string> saved_modules(const Model& model, const std::vector<std::string>& saved,
                                       const std::vector<TensorInfo>& weights) {
  std::vector<std::string> modules;
  for (const std::string& end : saved) {
    const bool is_of_body =
        std::any_of(weights.begin(), weights.end(), [&](const TensorInfo& weight) {
          if (model.role(weight.name) == models::WeightRole::head) return false;
          for (std::string module = weight.name; module.find('.') != std::string::npos;) {
            module = module_of(module);
            if (module.ends_with(end)) return true;
          }
          return false;
        });
    if (is_of_body) modules.push_back(end);
  }
  return modules;
}

// Rules for maps that have no adapter, which PEFT writes as they were given.
template <class Number>
void drop_idle(const std::vector<std::string>& maps, std::vector<LoraRule<Number>>& rules) {
  std::erase_if(rules, [&](const LoraRule<Number>& rule) {
    return std::none_of(maps.begin(), maps.end(),
                        [&](const std::string& map) { return is_rule_for(rule.expression, map); });
  });
}

}  // namespace

bool is_in_no_base(const Model& model, const std::string& weight) {
  return is_among(model.fresh, weight) || is_among(model.beside, weight) ||
         is_among(model.resized, weight);
}

bool is_of_adapter_folder(const Model& model, const TensorInfo& weight) {
  return weight.is_trained || is_adapter_name(weight.name) || is_in_no_base(model, weight.name);
}

std::string adapter_key(const Model& model, const std::string& parameter) {
  const std::string name = model.stored_name(parameter);
  const bool is_of_map = parameter.ends_with(kBias) &&
                         is_among(model.adapted, without_end(parameter, kBias) + ".weight");
  return kPrefix + (is_of_map ? without_end(name, kBias) + kBaseBias : name);
}

std::string adapter_config_json(const Model& model, const Session& session) {
  std::set<std::string> maps;
  std::set<std::string> others;
  const LoraOptions& lora = model.lora;
  for (const TensorInfo& weight : session.tensors()) {
    if (!weight.is_weight() || !is_of_adapter_folder(model, weight)) continue;
    // PEFT knows these by their names in the file: what `bias` says, and a table of more rows that
    // is not trained.
    const bool is_head = model.role(weight.name) == models::WeightRole::head;
    const bool is_of_bias = lora.bias != LoraBias::none && weight.name.ends_with(kBias) && !is_head;
    if (is_of_bias || (is_among(model.resized, weight.name) && !weight.is_trained)) continue;
    const std::string module = module_of(model.stored_name(weight.name));
    if (is_adapter_name(weight.name)) {
      maps.insert(module_of(module));
    } else {
      // PEFT finds a head of several maps by the module around them only.
      others.insert(is_head ? module.substr(0, module.find('.')) : module);
    }
  }
  nlohmann::ordered_json ranks = nlohmann::ordered_json::object();
  for (const LoraRule<int64_t>& rule : lora.rank_pattern) ranks[rule.expression] = rule.value;
  nlohmann::ordered_json alphas = nlohmann::ordered_json::object();
  for (const LoraRule<double>& rule : lora.alpha_pattern) alphas[rule.expression] = rule.value;
  nlohmann::ordered_json json = {
      {"peft_type", "LORA"},
      {"task_type", model.task->head->kind == models::HeadKind::token ? "TOKEN_CLS" : "SEQ_CLS"},
      {"base_model_name_or_path", io::absolute_path(model.weights_folder)},
      {"r", lora.r},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"target_modules", maps},
      {"modules_to_save", others},
      {"rank_pattern", ranks},
      {"alpha_pattern", alphas},
      {"bias", lora.bias == LoraBias::none  ? "none"
               : lora.bias == LoraBias::all ? "all"
                                            : "lora_only"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"use_dora", false},
      {"use_rslora", lora.use_rslora},
      {"inference_mode", true}};
  if (std::floor(lora.alpha) == lora.alpha) json["lora_alpha"] = static_cast<int64_t>(lora.alpha);
  return json.dump(2) + "\n";
}

AdapterFile::AdapterFile(const std::string& folder)
    : folder_(folder), file_(folder + "/" + kAdapterWeights) {}

const io::StoredTensor* AdapterFile::find(const Model& model, const std::string& parameter) const {
  for (const std::string& spelling : model.spellings(parameter)) {
    if (const io::StoredTensor* found = file_.find(kPrefix + spelling)) return found;
    if (!spelling.ends_with(kBias)) continue;
    const std::string of_map = without_end(spelling, kBias) + kBaseBias;
    if (const io::StoredTensor* found = file_.find(kPrefix + of_map)) return found;
  }
  return nullptr;
}

void AdapterFile::check_base(const std::string& base_sha256, const Model& model) const {
  const auto recorded = file_.metadata().find(kBaseDigestKey);
  if (recorded == file_.metadata().end() || recorded->second == base_sha256) return;
  throw Error(ErrorCode::bad_data, folder_,
              "the adapters were trained on other weights than those in " + model.weights_folder,
              "give the base that they belong to; " + std::string(kAdapterConfig) + " calls it '" +
                  read_adapter_config(folder_).base + "'");
}

LoraOptions match_adapters(const Model& model) {
  const std::string& folder = model.adapter_folder;
  const AdapterFile adapters(folder);
  const AdapterConfig config = read_adapter_config(folder);
  const std::vector<TensorInfo> weights = tensors_of(network_of(model));
  check_saved(model, config.saved, weights);
  LoraOptions lora = config.lora;
  const auto fail = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::bad_data, folder, what, hint);
  };
  std::set<std::string> used;
  const auto check = [&](const std::string& name, const Shape& wanted, const char* hint) {
    const io::StoredTensor* found = adapters.find(model, name);
    if (found == nullptr) fail("'" + adapter_key(model, name) + "' is missing", "save them anew");
    if (found->shape != wanted)
      fail("'" + found->name + "' is " + to_string(found->shape) + ", not " + to_string(wanted) +
               ": " + hint,
           "give the base and the adapter_config.json that belong to these adapters");
    used.insert(found->name);
  };
  for (const TensorInfo& weight : weights) {
    const AdapterNames names = adapter_names(weight.name);
    const io::StoredTensor* a = adapters.find(model, names.a);
    const io::StoredTensor* b = adapters.find(model, names.b);
    if (const io::StoredTensor* whole = adapters.find(model, weight.name)) used.insert(whole->name);
    if (a == nullptr && b == nullptr) continue;
    if (weight.shape.size() != 2) fail("'" + weight.name + "' is no linear map", "");
    const int64_t rank = adapter_size(lora, weight.name).rank;
    if (a != nullptr && a->shape.size() == 2 && a->shape[0] != rank)
      fail("the adapter of '" + weight.name + "' has the rank " + std::to_string(a->shape[0]) +
               ", " + kAdapterConfig + " says r = " + std::to_string(rank),
           "use the adapter_config.json that was saved with it");
    const char* hint = "they were made for another base";
    check(names.a, {rank, weight.shape[1]}, hint);
    check(names.b, {weight.shape[0], rank}, hint);
    lora.match.push_back(weight.name);
  }
  for (const io::StoredTensor& tensor : adapters.file().tensors()) {
    if (tensor.name.find(".lora_embedding_") != std::string::npos)
      fail("'" + tensor.name + "' adapts a table of embeddings, which is no linear map",
           "train adapters of linear maps only");
    if (used.count(tensor.name) == 0 && !is_copy(tensor.name, used))
      fail("'" + tensor.name + "' belongs to no weight of the model",
           "give the base that the adapters belong to");
  }
  if (!lora.is_on()) fail("there are no adapters", "give a folder with lora_A and lora_B tensors");
  lora.modules_to_save = saved_modules(model, config.saved, weights);
  drop_idle(lora.match, lora.rank_pattern);
  drop_idle(lora.match, lora.alpha_pattern);
  return lora;
}

int64_t rows_of_larger_table(const Model& model) {
  const AdapterFile adapters(model.adapter_folder);
  const int64_t rows = model.traits.vocab_size;
  for (const TensorInfo& weight : tensors_of(network_of(model))) {
    const bool is_table = rows > 0 && weight.shape.size() == 2 && weight.shape[0] == rows &&
                          model.role(weight.name) != models::WeightRole::head;
    const io::StoredTensor* found = is_table ? adapters.find(model, weight.name) : nullptr;
    if (found != nullptr && found->shape.size() == 2 && found->shape[0] > rows &&
        found->shape[1] == weight.shape[1])
      return found->shape[0];
  }
  return 0;
}

void BaseDigest::add(const std::string& weight, std::span<const float> values) {
  of_[weight].update(values.data(), static_cast<int64_t>(values.size_bytes()));
}

std::string BaseDigest::finish() {
  if (of_.empty()) return {};
  std::string all;
  for (auto& [weight, digest] : of_) all += weight + " " + digest.finish() + "\n";
  return io::sha256_of_bytes(all.data(), static_cast<int64_t>(all.size()));
}

}  // namespace snug::run_model
