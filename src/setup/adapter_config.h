// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of PEFT: what kind of adapters a folder holds, and on which model.
#pragma once

#include <string>
#include <vector>

#include "snug/lora.h"

namespace snug::train {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

/// Whether there are adapters in the folder.
[[nodiscard]] bool is_adapter_folder(const std::string& folder);

/// What adapter_config.json says. Throws Error{bad_config} naming file and key for another kind of
/// adapter, and for what asks for other mathematics.
struct AdapterConfig {
  LoraOptions lora;                // without `match`: the tensors say it
  std::string base;                // base_model_name_or_path
  std::vector<std::string> saved;  // modules_to_save: trained whole beside the adapters
};
[[nodiscard]] AdapterConfig read_adapter_config(const std::string& folder);

}  // namespace snug::train
