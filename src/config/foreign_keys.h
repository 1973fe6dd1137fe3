// SPDX-License-Identifier: Apache-2.0
// Keys of other programs that people bring along, and what does the same here. Those of Hugging
// Face's TrainingArguments have a table of their own (training_arguments.h).
#pragma once

#include <string_view>

namespace snug::config {

/// Advice for a key in Snug's spelling (underscores, no dashes before it); empty where nobody's.
[[nodiscard]] std::string_view foreign_key_advice(std::string_view key);

}  // namespace snug::config
