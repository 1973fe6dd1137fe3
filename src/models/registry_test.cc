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
  std::string name;
  ArchitecturePtr architecture;
};
std::vector<Preset> all_presets() {
  std::vector<Preset> presets;
  for (const ModelFamily* family : model_families()) {
    for (const std::string& name : *family->info().preset_names)
      presets.push_back({name, family->preset(run_of(name))});
  }
  return presets;
}

TEST(Families, names_types_and_presets_belong_to_one_family) {
  std::map<std::string, int> types;
  for (const ModelFamily* family : model_families()) {
    EXPECT_FALSE(family->info().preset_names->empty()) << *family->info().name;
    for (const std::string& type : *family->info().model_types) {
      EXPECT_EQ(++types[type], 1) << type;
      EXPECT_EQ(family_of_type(type), family);
    }
    for (const Preset& preset : all_presets()) {
      if (&preset.architecture->family() == family) continue;
      EXPECT_EQ(family->preset(run_of(preset.name)), nullptr)
          << *family->info().name << " " << preset.name;
    }
  }
  EXPECT_EQ(types.count(""), 1U);  // a config.json without a type is some family's
  EXPECT_EQ(family_of_type("no such type"), nullptr);
}

TEST(Families, what_is_written_is_read) {
  for (const Preset& preset : all_presets()) {
    const ArchitecturePtr three = preset.architecture->with_facts({.labels = {"x", "y", "z"}});
    three->check(preset.name);
    std::vector<std::string> ignored;
    const ArchitecturePtr again =
        three->family().read(three->config_json(), "config.json", &ignored);
    EXPECT_TRUE(again->is_equal(*three)) << preset.name;
    EXPECT_FALSE(again->is_equal(*preset.architecture)) << preset.name;
    EXPECT_TRUE(ignored.empty()) << preset.name << ": " << ignored.front();
    EXPECT_EQ(again->traits().labels, (std::vector<std::string>{"x", "y", "z"}));
    EXPECT_EQ(again->traits().num_labels, 3);
  }
}

TEST(Families, every_weight_has_one_name_in_files_and_some_are_the_head) {
  for (const Preset& preset : all_presets()) {
    const Architecture& architecture = *preset.architecture;
    if (architecture.size(1).parts > kMostParts) continue;
    GraphBuilder builder(op_registry(), "model");
    (void)architecture.build(builder, {1, 1}, {.training = false});
    std::set<std::string> names;
    int heads = 0;
    for (const Value& value : builder.graph().values) {
      if (!is_of_model(value.kind)) continue;
      const std::string stored = architecture.stored_name(value.name);
      EXPECT_TRUE(names.insert(stored).second) << preset.name << ": " << stored;
      EXPECT_TRUE(architecture.family().is_own(stored)) << preset.name << ": " << stored;
      heads += architecture.family().role(value.name) == WeightRole::head ? 1 : 0;
      (void)architecture.init_rule(value.name, value.type.shape);
    }
    EXPECT_GT(heads, 0) << preset.name;
  }
}

TEST(Families, names_are_listed_as_in_a_sentence) {
  const ModelFamily& first = *model_families()[0];
  const ModelFamily& second = *model_families()[1];
  EXPECT_EQ(names_of({&first}), *first.info().name);
  EXPECT_EQ(names_of({&first, &second}), *first.info().name + " and " + *second.info().name);
  EXPECT_EQ(names_of({&first, &second, &first}),
            *first.info().name + ", " + *second.info().name + " and " + *first.info().name);
}

}  // namespace
}  // namespace snug::models
