// SPDX-License-Identifier: Apache-2.0
// All families of the program, from the words in families.cmake.
#pragma once

#include <string_view>
#include <vector>

#include "models/family.h"

namespace snug::models {

/// In the order of the words.
[[nodiscard]] const std::vector<const ModelFamily*>& model_families();
/// The family that reads a config.json with this "model_type" ("": without one); null if none does.
[[nodiscard]] const ModelFamily* family_of_type(std::string_view model_type);
/// The families that take the key.
[[nodiscard]] std::vector<const ModelFamily*> families_with_key(std::string_view key);
/// Null where the family does not take the key.
[[nodiscard]] const ModelKey* find_key(const ModelFamily& family, std::string_view key);
/// "mlp", "vgg and resnet", "bert, mlp and lstm".
[[nodiscard]] std::string names_of(const std::vector<const ModelFamily*>& families);

}  // namespace snug::models
