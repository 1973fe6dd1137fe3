// SPDX-License-Identifier: Apache-2.0
// config.json of BERT and MLP: what is read, what is refused and with which words.
#include <gtest/gtest.h>

#include "models/bert/bert.h"
#include "models/lstm/lstm.h"
#include "models/mlp/mlp.h"
#include "models/registry.h"
#include "snug/error.h"

namespace snug::models {
namespace {

TEST(Bert_config, fields_are_read_and_unknown_ones_named) {
  std::vector<std::string> ignored;
  const BertConfig config = bert_config_from_json(
      R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 100, "hidden_size": 24,
          "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96, "hidden_act": "gelu_new",
          "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0, "classifier_dropout": 0.3,
          "max_position_embeddings": 64, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "initializer_range": 0.1,
          "pad_token_id": 3, "id2label": {"1": "b", "0": "a", "2": "c"}, "label2id": {"a": 0}, "directionality": "bidi",
          "chunk_size_feed_forward": 8, "pooler_fc_size": 768, "transformers_version": "5"})",
      "config.json", &ignored);
  BertConfig wanted;
  wanted.vocab_size = 100;
  wanted.hidden_size = 24;
  wanted.num_hidden_layers = 3;
  wanted.num_attention_heads = 4;
  wanted.intermediate_size = 96;
  wanted.hidden_act = "gelu_new";
  wanted.hidden_dropout_prob = 0.2;
  wanted.attention_probs_dropout_prob = 0;
  wanted.classifier_dropout = 0.3;
  wanted.max_position_embeddings = 64;
  wanted.type_vocab_size = 1;
  wanted.layer_norm_eps = 1e-5;
  wanted.initializer_range = 0.1;
  wanted.pad_token_id = 3;
  wanted.num_labels = 3;
  wanted.labels = {"a", "b", "c"};
  EXPECT_EQ(config, wanted);
  EXPECT_EQ(ignored, (std::vector<std::string>{"directionality", "pooler_fc_size"}));
}

TEST(Bert_config, absent_and_null_fields_have_hugging_faces_defaults) {
  EXPECT_EQ(
      bert_config_from_json(R"({"classifier_dropout": null, "hidden_size": null})", "config.json"),
      BertConfig{});
}

TEST(Bert_config, json_reads_back) {
  BertConfig config = bert_preset("bert-small");
  config.num_labels = 2;
  config.labels = {"neg", "pos \"quoted\""};
  config.classifier_dropout = 0.25;
  config.layer_norm_eps = 1e-7;
  config.pad_token_id = -1;  // none: null in the file, where a missing field is 0
  std::vector<std::string> ignored;
  EXPECT_EQ(bert_config_from_json(bert_config_to_json(config), "config.json", &ignored), config);
  EXPECT_TRUE(ignored.empty()) << ignored[0];
  config.labels.clear();
  const BertConfig read = bert_config_from_json(bert_config_to_json(config), "config.json");
  EXPECT_EQ(read.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

struct BadConfig {
  const char* json;
  ErrorCode code;
  const char* text;  // part of the message
};

template <class Read>
void expect_refusals(const std::vector<BadConfig>& cases, Read read) {
  for (const BadConfig& bad : cases) {
    try {
      (void)read(bad.json);
      ADD_FAILURE() << "no error for " << bad.json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), bad.code) << bad.json;
      EXPECT_EQ(error.where(), "dir/config.json") << bad.json;
      EXPECT_NE(std::string(error.what()).find(bad.text), std::string::npos) << error.what();
    }
  }
}

TEST(Bert_config, wrong_types_and_values_name_the_key) {
  using enum ErrorCode;
  expect_refusals(
      {
          {R"({"hidden_size": "768"})", bad_data, "\"hidden_size\" must be"},
          {R"({"hidden_size": 12.5})", bad_data, "\"hidden_size\" must be"},
          {R"({"num_hidden_layers": 0})", bad_data, "\"num_hidden_layers\""},
          {R"({"num_hidden_layers": 10001})", bad_data,
           "\"num_hidden_layers\" must be an integer from 1 to 10000, found 10001"},
          {R"({"hidden_dropout_prob": 1})", bad_data,
           "\"hidden_dropout_prob\" must be at least 0 and below 1"},
          {R"({"hidden_dropout_prob": true})", bad_data, "\"hidden_dropout_prob\" must be"},
          {R"({"layer_norm_eps": -1})", bad_data, "\"layer_norm_eps\" must be at least 0"},
          {R"({"hidden_act": 3})", bad_data, "\"hidden_act\" must be a text"},
          {R"({"hidden_act": "silu"})", bad_data,
           "\"hidden_act\" is \"silu\", which is not supported"},
          {R"({"id2label": {"1": "a"}})", bad_data, "none for id 0"},
          {R"({"id2label": {"0": null, "1": "a"}})", bad_data, "\"id2label.0\" is null"},
          {R"({"id2label": {}})", bad_data, "\"id2label\" is empty"},
          {R"({"id2label": {"0": ""}})", bad_data, "\"id2label.0\" is empty"},
          {R"({"label2id": 5})", bad_data, "\"label2id\" must be an object"},
          {R"({"label2id": {"a": "0"}})", bad_data, "\"label2id.a\" must be"},
          {R"({"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}})", bad_data,
           "\"label2id.a\" is 1, which id2label calls \"b\""},
          {R"({"id2label": {"0": "a"}, "label2id": {"a": 7}})", bad_data,
           "\"label2id.a\" is 7, which id2label does not have"},
          {R"({"id2label": {"0": "LABEL_1", "1": "b"}, "label2id": {"LABEL_1": 1}})", bad_data,
           "which id2label calls"},
          {R"({"architectures": "BertModel"})", bad_data, "\"architectures\" must be a list"},
          {R"({"architectures": [5]})", bad_data, "\"architectures[0]\" must be"},
          {R"({"layer_norm_eps": 1e308})", bad_data, "\"layer_norm_eps\" must be at least 0 and"},
          {R"({"num_labels": 3, "id2label": {"0": "a"}})", bad_data,
           "\"num_labels\" is 3, but id2label has 1 labels"},
          {R"({"num_attention_heads": 5})", bad_config,
           "5 num_attention_heads do not divide hidden_size 768"},
          {R"([])", bad_data, "must be an object"},
          {R"({"hidden_size": )", bad_data, ""},
      },
      [](const char* json) { return bert_config_from_json(json, "dir/config.json"); });
}

// transformers leaves its own names in label2id where only id2label was set.
TEST(Bert_config, names_of_transformers_in_label2id_contradict_nothing) {
  const BertConfig config = bert_config_from_json(
      R"({"id2label": {"0": "a", "1": "b"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}})",
      "config.json");
  EXPECT_EQ(config.labels, (std::vector<std::string>{"a", "b"}));
}

// As published ones have them: two classes of one name, and names that are numbers.
TEST(Bert_config, ids_tell_classes_of_one_name_apart) {
  BertConfig config = bert_config_from_json(
      R"({"id2label": {"0": "crane", "1": "heron", "2": "crane"}, "label2id": {"crane": 2, "heron": 1}})",
      "config.json");
  EXPECT_EQ(config.labels, (std::vector<std::string>{"crane", "heron", "crane"}));
  const std::string json = bert_config_to_json(config);
  EXPECT_EQ(bert_config_from_json(json, "config.json").labels, config.labels);
  EXPECT_NE(json.find("\"crane\": 2"), std::string::npos) << json;
  config = bert_config_from_json(R"({"id2label": {"0": 1, "1": 5, "2": -2.5}})", "config.json");
  EXPECT_EQ(config.labels, (std::vector<std::string>{"1", "5", "-2.5"}));
}

TEST(Bert_config, a_file_without_a_type_is_bert_where_something_says_so) {
  using enum ErrorCode;
  const std::string fields =
      R"("vocab_size": 100, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4)";
  const std::string rest = "{" + fields + "}";
  const std::string other =
      R"({"architectures": ["GPT2LMHeadModel"], "type_vocab_size": 2, )" + fields + "}";
  const auto read = [](const std::string& json) {
    return family_of_type("")->read(json, "dir/config.json", nullptr);
  };
  expect_refusals({{"{}", bad_config, "there is no model_type, and BERT"},
                   {R"({"model_type": null})", bad_config, "there is no model_type"},
                   {R"({"model_type": 5})", bad_data, "\"model_type\" must be"},
                   {rest.c_str(), bad_config, "older files have none, has type_vocab_size"},
                   {other.c_str(), bad_config, "architectures names 'GPT2LMHeadModel'"},
                   {R"({"architectures": ["BertGenerationEncoder"]})", bad_config, "is not BERT's"},
                   {R"({"architectures": []})", bad_config, "there is no model_type"}},
                  read);
  (void)read(R"({"type_vocab_size": 2, )" + fields + "}");
  (void)read(R"({"architectures": ["BertForMaskedLM"]})");
}

TEST(Bert_config, other_mathematics_is_refused) {
  using enum ErrorCode;
  expect_refusals(
      {
          {R"({"model_type": "roberta"})", bad_data,
           "\"model_type\" is \"roberta\": the model is not BERT"},
          {R"({"vocab_size": 100, "pad_token_id": 100})", bad_config,
           "pad_token_id 100 is no token of a vocabulary of 100"},
          {R"({"position_embedding_type": "relative_key"})", bad_data,
           "relative positions are not supported"},
          {R"({"problem_type": "ranking"})", bad_data, "\"problem_type\" is \"ranking\""},
          {R"({"is_decoder": true})", bad_data, "\"is_decoder\" is true"},
          {R"({"add_cross_attention": true})", bad_data, "\"add_cross_attention\" is true"},
          {R"({"is_decoder": 1})", bad_data, "\"is_decoder\" must be true or false"},
          {R"({"pruned_heads": {"0": [1]}})", bad_data, "\"pruned_heads\" is not empty"},
          {R"({"quantization_config": {}})", bad_data, "\"quantization_config\""},
      },
      [](const char* json) { return bert_config_from_json(json, "dir/config.json"); });
  const BertConfig same = bert_config_from_json(
      R"({"is_decoder": false, "add_cross_attention": false, "position_embedding_type": "absolute", "pruned_heads": {}})",
      "config.json");
  EXPECT_EQ(same, BertConfig{});
}

TEST(Bert_config, unknown_preset_is_refused) {
  try {
    (void)bert_preset("bert-huge");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_EQ(error.where(), "model");
    EXPECT_NE(std::string(error.what()).find("no preset \"bert-huge\""), std::string::npos);
  }
}

TEST(Lstm_config, json_reads_back) {
  LstmConfig config;
  config.vocab_size = 50;
  config.embedding_size = 7;
  config.hidden_size = 12;
  config.num_hidden_layers = 3;
  config.dropout = 0.1;
  config.num_labels = 2;
  config.labels = {"x", "y"};
  std::vector<std::string> ignored;
  EXPECT_EQ(lstm_config_from_json(lstm_config_to_json(config), "config.json", &ignored), config);
  EXPECT_TRUE(ignored.empty());
}

TEST(Lstm_config, bad_fields_are_refused) {
  using enum ErrorCode;
  expect_refusals(
      {
          {R"({"model_type": "gru"})", bad_data, "the model is not an LSTM"},
          {R"({"bidirectional": true})", bad_data, "only one direction is supported"},
          {R"({"vocab_size": 100, "pad_token_id": 100})", bad_config,
           "pad_token_id 100 is no token of a vocabulary of 100"},
          {R"({"hidden_size": 0})", bad_data, "\"hidden_size\" must be"},
          {R"({"num_hidden_layers": 0})", bad_data, "\"num_hidden_layers\" must be"},
          {R"({"num_hidden_layers": 1000000000})", bad_data, "from 1 to 10000, found 1000000000"},
          {R"({"dropout": 1})", bad_data, "\"dropout\" must be at least 0 and below 1"},
      },
      [](const char* json) { return lstm_config_from_json(json, "dir/config.json"); });
}

TEST(Mlp_config, json_reads_back) {
  MlpConfig config;
  config.vocab_size = 50;
  config.embedding_size = 7;
  config.hidden_sizes = {8, 4};
  config.dropout = 0.1;
  config.num_labels = 2;
  config.labels = {"x", "y"};
  std::vector<std::string> ignored;
  EXPECT_EQ(mlp_config_from_json(mlp_config_to_json(config), "config.json", &ignored), config);
  EXPECT_TRUE(ignored.empty());
}

TEST(Mlp_config, bad_fields_are_refused) {
  using enum ErrorCode;
  std::string long_list = R"({"hidden_sizes": [4)";
  for (int i = 0; i < 10000; ++i) long_list += ",4";
  long_list += "]}";
  expect_refusals(
      {
          {R"({"model_type": "bert"})", bad_data, "the model is not an MLP"},
          {R"({"vocab_size": 100, "pad_token_id": 100})", bad_config,
           "pad_token_id 100 is no token of a vocabulary of 100"},
          {R"({"hidden_sizes": 5})", bad_data, "\"hidden_sizes\" must be a list of sizes"},
          {R"({"hidden_sizes": [5, 0]})", bad_data, "\"hidden_sizes[1]\" must be"},
          {R"({"hidden_sizes": []})", bad_config,
           "a model without hidden_sizes needs an embedding_size"},
          {long_list.c_str(), bad_config,
           "hidden_sizes asks for 10001 layers or blocks, more than the 10000 that a model"},
          {R"({"dropout": 2})", bad_data, "\"dropout\" must be at least 0 and below 1"},
      },
      [](const char* json) { return mlp_config_from_json(json, "dir/config.json"); });
}

}  // namespace
}  // namespace snug::models
