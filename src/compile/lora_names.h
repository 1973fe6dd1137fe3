// SPDX-License-Identifier: Apache-2.0
// Names of maps and the rules for them that snug/lora.h has, apart from any graph.
#pragma once

#include <string>
#include <string_view>

#include "base/expression.h"
#include "snug/lora.h"

namespace snug::compile {

[[noreturn]] void refuse_lora(const std::string& what, const std::string& hint);

inline constexpr std::string_view kBiasEnd = ".bias";
/// PEFT's name of a weight.
[[nodiscard]] std::string module_of(const std::string& weight);
/// The expression of `text`, which the user wrote as `pattern`. Throws Error{bad_config} at "lora".
[[nodiscard]] Expression lora_expression(const std::string& pattern, const std::string& text);

}  // namespace snug::compile
