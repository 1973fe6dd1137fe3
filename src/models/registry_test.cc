// SPDX-License-Identifier: Apache-2.0
// What must hold for every family in the program's list, those to come included.
#include "models/registry.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ops/registry.h"

namespace snug::models {
namespace {

constexpr int64_t kMostParts = 24;  // of a preset that is built here

RunConfig run_of(const std::string& model) {
  RunConfig config;
  config.model = model;
  return config;
}

struct Preset {
  const ModelFamily* family = nullptr;
  std::string name;
  FamilyConfig config;
};
std::vector<Preset> all_presets() {
  std::vector<Preset> presets;
  for (const ModelFamily* family : model_families()) {
    for (const std::string& name : *family->preset_names)
      presets.push_back({family, name, (*family->preset)(run_of(name)).value()});
  }
  return presets;
}

TEST(Families, names_types_and_presets_belong_to_one_family) {
  std::map<std::string, int> types;
  for (const ModelFamily* family : model_families()) {
    EXPECT_FALSE(family->preset_names->empty()) << *family->name;
    for (const std::string& type : *family->model_types) {
      EXPECT_EQ(++types[type], 1) << type;
      EXPECT_EQ(family_of_type(type), family);
    }
    for (const Preset& preset : all_presets()) {
      if (preset.family == family) continue;
      EXPECT_FALSE((*family->preset)(run_of(preset.name))) << *family->name << " " << preset.name;
    }
  }
  EXPECT_EQ(types.count(""), 1U);  // a config.json without a type is some family's
  EXPECT_EQ(family_of_type("no such type"), nullptr);
}

TEST(Families, what_is_written_is_read) {
  for (Preset& preset : all_presets()) {
    const ModelFamily& family = *preset.family;
    (*family.apply_facts)(preset.config, {.labels = {"x", "y", "z"}});
    (*family.check)(preset.config, preset.name);
    std::vector<std::string> ignored;
    const FamilyConfig again =
        (*family.read)((*family.write)(preset.config), "config.json", &ignored);
    EXPECT_TRUE((*family.is_equal)(again, preset.config)) << preset.name;
    EXPECT_TRUE(ignored.empty()) << preset.name << ": " << ignored.front();
    EXPECT_EQ((*family.traits)(again).labels, (std::vector<std::string>{"x", "y", "z"}));
    EXPECT_EQ((*family.traits)(again).num_labels, 3);
  }
}

TEST(Families, every_weight_has_one_name_in_files_and_some_are_the_head) {
  for (const Preset& preset : all_presets()) {
    const ModelFamily& family = *preset.family;
    if ((*family.size)(preset.config, 1).parts > kMostParts) continue;
    GraphBuilder builder(op_registry(), "model");
    (void)(*family.build)(preset.config, builder, {1, 1}, {.training = false});
    std::set<std::string> names;
    int heads = 0;
    for (const Value& value : builder.graph().values) {
      if (!is_of_model(value.kind)) continue;
      const WeightNames& weights = *family.weights;
      const std::string stored = (*weights.stored)(preset.config, value.name);
      EXPECT_TRUE(names.insert(stored).second) << preset.name << ": " << stored;
      EXPECT_TRUE((*weights.is_own)(stored)) << preset.name << ": " << stored;
      heads += (*weights.role)(value.name) == WeightRole::head ? 1 : 0;
      (void)(*family.init_rule)(preset.config, value.name, value.type.shape);
    }
    EXPECT_GT(heads, 0) << preset.name;
  }
}

TEST(Families, names_are_listed_as_in_a_sentence) {
  const ModelFamily& first = *model_families()[0];
  const ModelFamily& second = *model_families()[1];
  EXPECT_EQ(names_of({&first}), *first.name);
  EXPECT_EQ(names_of({&first, &second}), *first.name + " and " + *second.name);
  EXPECT_EQ(names_of({&first, &second, &first}),
            *first.name + ", " + *second.name + " and " + *first.name);
}

}  // namespace
}  // namespace snug::models
