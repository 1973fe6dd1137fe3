// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of a folder of PEFT's.
#include "fuzz/fuzz.h"
#include "io/file.h"
#include "run_model/adapter_config.h"

namespace snug::fuzz {

void read_adapter_config(std::string_view input) {
  (void)write_file("adapter_model.safetensors", "");
  const std::string folder = io::parent_folder(write_file(run_model::kAdapterConfig, input));
  require(run_model::is_adapter_folder(folder), "the file makes the folder one of adapters");
  const run_model::AdapterConfig config = run_model::read_adapter_config(folder);
  require(config.lora.r > 0, "a rank is positive");
  require(adapter_size(config.lora, "bert.encoder.layer.0.attention.self.query.weight").rank > 0,
          "a rank of a map is positive");
}

}  // namespace snug::fuzz
