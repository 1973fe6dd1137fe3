// SPDX-License-Identifier: Apache-2.0
// Values of TrainSpec's fields as JSON, so that numbers read back exactly: what a session's
// checkpoint holds of its options.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "snug/train_spec.h"

namespace snug::spec {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json json_of(bool value);
[[nodiscard]] Json json_of(int64_t value);
[[nodiscard]] Json json_of(double value);
[[nodiscard]] Json json_of(const std::string& value);
[[nodiscard]] Json json_of(const std::optional<bool>& value);  // unset: null
[[nodiscard]] Json json_of(const std::vector<std::string>& values);
[[nodiscard]] Json json_of(const NamedNumbers& values);
[[nodiscard]] Json json_of(const std::vector<ParameterGroup>& groups);
[[nodiscard]] Json json_of(const std::vector<StateBits>& rules);
[[nodiscard]] Json json_of(const std::vector<PrecisionRule>& rules);
[[nodiscard]] Json json_of(const std::vector<FusionRule>& rules);
[[nodiscard]] Json json_of(const std::vector<Lengths>& lengths);
[[nodiscard]] Json json_of(const LoraOptions& lora);
[[nodiscard]] Json json_of(const MemorySpec& memory);
[[nodiscard]] Json json_of(ScheduleKind kind);
[[nodiscard]] Json json_of(DrawNumbering numbering);

}  // namespace snug::spec
