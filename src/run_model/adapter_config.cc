// SPDX-License-Identifier: Apache-2.0
#include "run_model/adapter_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/shell.h"
#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"

namespace snug::run_model {
namespace {

constexpr int64_t kMaxAdapterConfigBytes = 16 << 20;
constexpr int64_t kMostRank = int64_t{1} << 16;
constexpr int64_t kMostRules = 1000;
constexpr size_t kMostRuleBytes = 1000;

// Fields of PEFT's configuration (0.3 to 0.21) that are read, are judged below, or say nothing of
// the mathematics of adapters whose tensors are there.
constexpr std::array kUnderstood = std::to_array<std::string_view>({"peft_type",
                                                                    "task_type",
                                                                    "inference_mode",
                                                                    "auto_mapping",
                                                                    "peft_version",
                                                                    "base_model_name_or_path",
                                                                    "revision",
                                                                    "r",
                                                                    "target_modules",
                                                                    "exclude_modules",
                                                                    "lora_alpha",
                                                                    "lora_dropout",
                                                                    "use_rslora",
                                                                    "rank_pattern",
                                                                    "alpha_pattern",
                                                                    "fan_in_fan_out",
                                                                    "bias",
                                                                    "modules_to_save",
                                                                    "init_lora_weights",
                                                                    "layers_to_transform",
                                                                    "layers_pattern",
                                                                    "megatron_core",
                                                                    "eva_config",
                                                                    "qalora_group_size",
                                                                    "runtime_config",
                                                                    "ensure_weight_tying"});

bool asks_nothing(const io::JsonValue& value) {
  if (value.is_bool()) return !value.as_bool();
  return (value.is_array() || value.is_object()) && value.size() == 0;
}

// What PEFT's configuration may ask for that these adapters are not: the value that asks nothing.
void refuse_other_mathematics(const io::JsonValue& config) {
  const auto refuse = [&](const io::JsonValue& value, const char* what) {
    throw Error(ErrorCode::bad_config, config.file(),
                "\"" + value.path() + "\" " + value.dump() + " asks for " + what,
                "train adapters without it");
  };
  for (const auto& [key, what] :
       {std::pair<const char*, const char*>{"use_dora", "weights by magnitude and direction"},
        {"use_qalora", "quantized groups"},
        {"use_bdlora", "blocks"},
        {"lora_bias", "biases in B"},
        {"alora_invocation_tokens", "adapters that begin at a token"},
        {"arrow_config", "a choice among adapters"},
        {"layer_replication", "layers that are repeated"},
        {"target_parameters", "adapters of weights that are no layers"},
        {"trainable_token_indices", "rows of embeddings"},
        {"megatron_config", "another library's layers"}}) {
    const auto value = config.find(key);
    if (value && !asks_nothing(*value)) refuse(*value, what);
  }
  // Others (PiSSA, OLoRA, LoftQ, CorDA) take the adapters' first product out of the base.
  const auto init = config.find("init_lora_weights");
  const auto is_named = [&](std::string_view name) {
    return init->is_string() && init->as_string() == name;
  };
  if (init && !init->is_bool() && !is_named("gaussian") && !is_named("orthogonal") &&
      !is_named("eva"))
    refuse(*init, "another base: its weights less the first adapters");
  for (const char* key : {"corda_config", "loftq_config"}) {
    const auto value = config.find(key);
    if (value && value->is_object() && value->size() > 0)
      refuse(*value, "another base: its weights less the first adapters");
  }
  for (const std::string& key : config.keys()) {
    const auto value = config.find(key);
    const bool is_known =
        std::find(kUnderstood.begin(), kUnderstood.end(), key) != kUnderstood.end();
    if (!is_known && value && !asks_nothing(*value))
      refuse(*value, "what this version does not know");
  }
}

// What is written as in the key lora.
void take_rest(const io::JsonValue& config, LoraOptions& lora) {
  const auto bias = config.find("bias");
  if (bias) {
    const std::string word = bias->as_string();
    if (word != "none" && word != "all" && word != "lora_only")
      bias->fail("must be none, all or lora_only");
    lora.bias = word == "all"    ? LoraBias::all
                : word == "none" ? LoraBias::none
                                 : LoraBias::lora_only;
  }
  lora.use_rslora = config.get_bool("use_rslora", false);
  const auto each = [&](const char* key, auto take) {
    const auto rules = config.find(key);
    if (!rules) return;
    if (!rules->is_object()) rules->fail("must be an object of names and numbers");
    if (rules->size() > kMostRules)
      rules->fail("has more than " + std::to_string(kMostRules) + " names");
    for (const std::string& name : rules->keys()) {
      if (name.size() > kMostRuleBytes)
        rules->fail("has a name of more than " + std::to_string(kMostRuleBytes) + " bytes");
      try {
        (void)is_rule_for(name, "");
      } catch (const Error& error) {
        rules->fail("holds a wrong name: " + error.message(), error.hint());
      }
      take(name, rules->at(name));
    }
  };
  each("rank_pattern", [&](const std::string& name, const io::JsonValue& value) {
    lora.rank_pattern.push_back({name, value.as_int(1, kMostRank)});
  });
  each("alpha_pattern", [&](const std::string& name, const io::JsonValue& value) {
    const double alpha = value.as_double();
    if (alpha <= 0) value.fail("must be above 0");
    lora.alpha_pattern.push_back({name, alpha});
  });
}

}  // namespace

bool is_adapter_folder(const std::string& folder) {
  return io::is_folder(folder) && io::has_file(folder + "/" + kAdapterConfig);
}

std::string adapted_model_config(const std::string& folder) {
  for (const char* name : {kAdaptedModelConfig, "config.json"}) {
    if (const std::string path = folder + "/" + name; io::has_file(path)) return path;
  }
  return {};
}

AdapterConfig read_adapter_config(const std::string& folder) {
  const std::string path = folder + "/" + kAdapterConfig;
  const io::JsonValue config = io::load_json(path, kMaxAdapterConfigBytes);
  const std::string type = config.get_string("peft_type", "");
  if (type != "LORA")
    throw Error(ErrorCode::bad_config, path, "\"peft_type\" is '" + type + "'", "LORA is read");
  refuse_other_mathematics(config);
  AdapterConfig read;
  read.lora.r = config.get_positive("r");
  read.lora.alpha = config.get_double("lora_alpha", read.lora.alpha);
  read.lora.dropout = config.get_double("lora_dropout", read.lora.dropout);
  take_rest(config, read.lora);
  read.base = config.get_string("base_model_name_or_path", "");
  if (const auto saved = config.find("modules_to_save")) read.saved = saved->as_strings();
  // The tensors say which maps have adapters; null asks PEFT for those that are usual.
  if (const auto maps = config.find("target_modules"); maps && !maps->is_string())
    (void)maps->as_strings();
  if (const std::string weights = folder + "/" + kAdapterWeights; !io::has_file(weights)) {
    const std::string old = folder + "/adapter_model.bin";
    throw Error(ErrorCode::bad_data, folder, std::string("there is no ") + kAdapterWeights,
                io::file_exists(old) ? convert_line(old, weights)
                                     : "save the adapters with save_pretrained(FOLDER) of peft");
  }
  return read;
}

}  // namespace snug::run_model
