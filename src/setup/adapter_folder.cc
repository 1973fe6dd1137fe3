// SPDX-License-Identifier: Apache-2.0
#include "setup/adapter_folder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file.h"
#include "setup/model_network.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr const char* kPrefix = "base_model.model.";

std::string module_of(const std::string& key) { return key.substr(0, key.rfind('.')); }

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

}  // namespace

bool is_in_no_base(const Model& model, const std::string& weight) {
  const auto is_among = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), weight) != names.end();
  };
  return is_among(model.fresh) || is_among(model.beside);
}

bool is_of_adapter_folder(const Model& model, const TensorInfo& weight) {
  return weight.is_trained || is_adapter_name(weight.name) || is_in_no_base(model, weight.name);
}

std::string adapter_key(const Model& model, const std::string& parameter) {
  return kPrefix + model.stored_name(parameter);
}

std::string adapter_config_json(const Model& model, const Session& session) {
  std::set<std::string> maps;
  std::set<std::string> others;
  for (const TensorInfo& weight : session.tensors()) {
    if (!weight.is_weight() || !is_of_adapter_folder(model, weight)) continue;
    const std::string module = module_of(model.stored_name(weight.name));
    if (is_adapter_name(weight.name)) {
      maps.insert(module_of(module));
    } else {
      // PEFT finds a head of several maps by the module around them alone.
      const bool is_head = model.role(weight.name) == models::WeightRole::head;
      others.insert(is_head ? module.substr(0, module.find('.')) : module);
    }
  }
  const LoraOptions& lora = model.lora;
  nlohmann::ordered_json json = {
      {"peft_type", "LORA"},
      {"task_type", model.task->head->kind == models::HeadKind::token ? "TOKEN_CLS" : "SEQ_CLS"},
      {"base_model_name_or_path", io::absolute_path(model.weights_folder)},
      {"r", lora.r},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"target_modules", maps},
      {"modules_to_save", others},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"use_dora", false},
      {"use_rslora", false},
      {"inference_mode", true}};
  if (std::floor(lora.alpha) == lora.alpha) json["lora_alpha"] = static_cast<int64_t>(lora.alpha);
  return json.dump(2) + "\n";
}

AdapterFile::AdapterFile(const std::string& folder)
    : folder_(folder), file_(folder + "/" + kAdapterWeights) {}

const io::TensorInfo* AdapterFile::find(const Model& model, const std::string& parameter) const {
  for (const std::string& spelling : model.spellings(parameter)) {
    if (const io::TensorInfo* found = file_.find(kPrefix + spelling)) return found;
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
    const io::TensorInfo* found = adapters.find(model, name);
    if (found == nullptr) fail("'" + adapter_key(model, name) + "' is missing", "save them anew");
    if (found->shape != wanted)
      fail("'" + found->name + "' is " + to_string(found->shape) + ", not " + to_string(wanted) +
               ": " + hint,
           "give the base and the adapter_config.json that belong to these adapters");
    used.insert(found->name);
  };
  for (const TensorInfo& weight : weights) {
    const AdapterNames names = adapter_names(weight.name);
    const io::TensorInfo* a = adapters.find(model, names.a);
    const io::TensorInfo* b = adapters.find(model, names.b);
    if (const io::TensorInfo* whole = adapters.find(model, weight.name)) used.insert(whole->name);
    if (a == nullptr && b == nullptr) continue;
    if (weight.shape.size() != 2) fail("'" + weight.name + "' is no linear map", "");
    if (a != nullptr && a->shape.size() == 2 && a->shape[0] != lora.r)
      fail("the adapter of '" + weight.name + "' has the rank " + std::to_string(a->shape[0]) +
               ", " + kAdapterConfig + " says r = " + std::to_string(lora.r),
           "use the adapter_config.json that was saved with it");
    const char* hint = "they were made for another base";
    check(names.a, {lora.r, weight.shape[1]}, hint);
    check(names.b, {weight.shape[0], lora.r}, hint);
    lora.match.push_back(weight.name);
  }
  for (const io::TensorInfo& tensor : adapters.file().tensors()) {
    if (tensor.name.find(".lora_embedding_") != std::string::npos)
      fail("'" + tensor.name + "' adapts a table of embeddings, which is no linear map",
           "train adapters of linear maps alone");
    if (used.count(tensor.name) == 0)
      fail("'" + tensor.name + "' belongs to no weight of the model",
           "give the base that the adapters belong to");
  }
  if (!lora.is_on()) fail("there are no adapters", "give a folder with lora_A and lora_B tensors");
  return lora;
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

}  // namespace snug::train
