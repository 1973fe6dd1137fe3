// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of PEFT: what kind of adapters a folder holds, and on which model.
#pragma once

#include <string>
#include <vector>

#include "snug/lora.h"

namespace snug::run_model {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

/// config.json of the model with the head that the adapters were trained with. Under that name
/// transformers would look for the model's weights beside it.
inline constexpr const char* kAdaptedModelConfig = "snug_config.json";

/// Whether there are adapters in the folder.
[[nodiscard]] bool is_adapter_folder(const std::string& folder);
/// The path of kAdaptedModelConfig, or of config.json, as older versions called it; empty where the
/// folder has neither.
[[nodiscard]] std::string adapted_model_config(const std::string& folder);

/// What adapter_config.json says. Throws Error{bad_config} naming file and key for another kind of
/// adapter, and for what asks for other mathematics.
struct AdapterConfig {
  LoraOptions lora;                // without maps and modules: the tensors say them
  std::string base;                // base_model_name_or_path
  std::vector<std::string> saved;  // modules_to_save: trained whole beside the adapters
};
[[nodiscard]] AdapterConfig read_adapter_config(const std::string& folder);

}  // namespace snug::run_model
