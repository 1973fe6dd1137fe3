// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>

namespace snug::models {

#define SNUG_FAMILY(family) const ModelFamily& family##_family();
#include "families.inc"
#undef SNUG_FAMILY

const std::vector<const ModelFamily*>& model_families() {
  static const std::vector<const ModelFamily*> families = {
#define SNUG_FAMILY(family) &family##_family(),
#include "families.inc"
#undef SNUG_FAMILY
  };
  return families;
}

const ModelFamily* family_of_type(std::string_view model_type) {
  for (const ModelFamily* family : model_families()) {
    const auto& types = *family->info().model_types;
    if (std::find(types.begin(), types.end(), model_type) != types.end()) return family;
  }
  return nullptr;
}

std::vector<const ModelFamily*> families_with_key(std::string_view key) {
  std::vector<const ModelFamily*> families = model_families();
  std::erase_if(families, [&](const ModelFamily* each) { return find_key(*each, key) == nullptr; });
  return families;
}

const ModelKey* find_key(const ModelFamily& family, std::string_view key) {
  for (const ModelKey& each : *family.info().keys) {
    if (each.name == key) return &each;
  }
  return nullptr;
}

std::string names_of(const std::vector<const ModelFamily*>& families) {
  std::string text;
  for (size_t i = 0; i < families.size(); ++i) {
    const bool is_last = i + 1 == families.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + *families[i]->info().name;
  }
  return text;
}

}  // namespace snug::models
