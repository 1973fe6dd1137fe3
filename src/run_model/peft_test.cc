// SPDX-License-Identifier: Apache-2.0
// What the key lora makes of a BERT of two layers against what PEFT's LoraConfig makes of it
// (tests/golden/peft.json, written by tools/golden/peft_names.py).
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "snug/models.h"

namespace snug::run_model {
namespace {

constexpr double kTolerance = 1e-15;

RunConfig bert(const std::string& lora) {
  RunConfig config;
  config.model = "bert-tiny";
  config.vocab_size = 50;
  config.num_labels = 3;
  config.set("lora", lora);
  return config;
}

bool is_head(const std::string& name) { return name.starts_with("classifier."); }

void expect_as_in_peft(const io::JsonValue& wanted) {
  const RunConfig config = bert(wanted.at("lora").dump());
  const std::vector<TensorInfo> tensors = tensors_of(model_network(config), {.lora = config.lora});
  std::map<std::string, int64_t> ranks;  // by map
  std::set<std::string> trained;
  for (const TensorInfo& tensor : tensors) {
    const size_t a = tensor.name.find(".lora_A.weight");
    if (a != std::string::npos) ranks[tensor.name.substr(0, a)] = tensor.shape[0];
    if (tensor.is_trained && !is_adapter_name(tensor.name) && !is_head(tensor.name))
      trained.insert(tensor.name);
  }
  const io::JsonValue maps = wanted.at("maps");
  ASSERT_EQ(std::ssize(ranks), maps.size());
  for (const std::string& map : maps.keys()) {
    ASSERT_EQ(ranks.count(map), 1U) << map;
    EXPECT_EQ(ranks.at(map), maps.at(map).at(int64_t{0}).as_int()) << map;
    const AdapterSize size = adapter_size(config.lora, map + ".weight");
    EXPECT_EQ(size.rank, ranks.at(map)) << map;
    EXPECT_NEAR(size.scale, maps.at(map).at(int64_t{1}).as_double(), kTolerance) << map;
  }
  const std::vector<std::string> names = wanted.at("trained").as_strings();
  EXPECT_EQ(trained, std::set<std::string>(names.begin(), names.end()));
}

TEST(Peft, maps_ranks_scales_and_what_is_trained_are_those_of_lora_config) {
  const std::string path = SNUG_SOURCE_DIR "/tests/golden/peft.json";
  const io::JsonValue cases = io::load_json(path).at("cases");
  ASSERT_GT(cases.size(), 10);
  for (int64_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases.at(i).at("lora").dump());
    expect_as_in_peft(cases.at(i));
  }
}

TEST(Peft, what_cannot_be_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"target_modules": ["query", "valeu"]})",
       "target_modules: no linear map before the head is called 'valeu'"},
      {R"({"target_modules": ["classifier"]})", "before the head is called 'classifier'"},
      {R"({"target_modules": ["word_embeddings"]})", "is no linear map: it is read by"},
      {R"({"target_modules": "query"})", "'query' matches no linear map before the head"},
      {R"({"target_modules": "(query"})", "'(query' is no expression that could be read"},
      {R"({"target_modules": "(?i).*query"})", "lookaround, flags"},
      {R"({"target_modules": ["query"], "rank_pattern": {"value": 2}})",
       "rank_pattern: 'value' matches no map with an adapter"},
      {R"({"target_modules": ["query"], "alpha_pattern": {"[": 2}})", "'[' is no expression"},
      {R"({"target_modules": ["query"], "modules_to_save": ["poler"]})",
       "modules_to_save: the model has no module whose name ends in 'poler'"},
      {R"({"match": "*pooler*", "modules_to_save": ["pooler"]})",
       "'bert.pooler.dense.weight' belongs to modules_to_save"}};
  for (const auto& [lora, text] : cases) {
    const RunConfig config = bert(lora);
    try {
      (void)tensors_of(model_network(config), {.lora = config.lora});
      ADD_FAILURE() << lora;
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "lora") << lora;
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      EXPECT_FALSE(error.hint().empty()) << lora;
    }
  }
}

}  // namespace
}  // namespace snug::run_model
