// SPDX-License-Identifier: Apache-2.0
// What files beside a tokenizer say of it: honoured as transformers does, or refused by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {

using test::TemporaryFolder;
using test::write_file;

namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

constexpr const char* kConfig = "tokenizer_config.json";

struct Folder {
  explicit Folder(const std::string& tokenizer) {
    write(tokenizer, test::read_file(test::data_file(tokenizer)));
  }
  void write(const std::string& name, const std::string& text) const {
    write_file(temporary.path() / name, text);
  }
  [[nodiscard]] Tokenizer load() const { return Tokenizer::load(temporary.path()); }
  [[nodiscard]] std::string error() const {
    return test::error_of([this] { (void)load(); });
  }
  TemporaryFolder temporary;
};

// fairseq's offset is 1 in XLM-R and 4 in CamemBERT, whose tokens around a text are the model's.
TEST(TokenizerConfig, camembert_is_told_from_xlm_r_by_the_model_s_configuration) {
  const Folder folder("sentencepiece.bpe.model");
  const Ids xlmr = folder.load().encode("a human", std::nullopt, 64).ids;
  Ids wanted;
  for (const int32_t id : xlmr) wanted.push_back(id == 3 ? 3 : id == 0 ? 5 : id == 2 ? 6 : id + 3);
  for (const char* config :
       {R"({"model_type": "camembert"})", R"({"tokenizer_class": "CamembertTokenizer"})"}) {
    folder.write("config.json", config);
    const Tokenizer tokenizer = folder.load();
    EXPECT_EQ(tokenizer.encode("a human", std::nullopt, 64).ids, wanted) << config;
    EXPECT_EQ(tokenizer.pad_id(), 1);
    EXPECT_EQ(tokenizer.token(3), "<unk>");
    EXPECT_EQ(tokenizer.mask_id(), tokenizer.vocab_size() - 1);
    const TemporaryFolder saved;
    tokenizer.save(saved.path());
    EXPECT_EQ(Tokenizer::load(saved.path()).encode("a human", std::nullopt, 64).ids, wanted);
  }
}

TEST(TokenizerConfig, the_class_of_config_json_counts_where_none_is_named) {
  const Folder folder("sentencepiece.bpe.model");
  folder.write("config.json", R"({"tokenizer_class": "BarthezTokenizer"})");
  EXPECT_NE(folder.error().find("tokenizer_class 'BarthezTokenizer'"), std::string::npos);
  folder.write(kConfig, R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  EXPECT_EQ(folder.error(), "no error");
  const TemporaryFolder bert;
  write_file(bert.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  write_file(bert.path() / "config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  EXPECT_NE(test::error_of([&] { (void)Tokenizer::load(bert.path()); }).find("BertJapanese"),
            std::string::npos);
}

TEST(TokenizerConfig, what_changes_words_is_refused) {
  const Folder deberta("spm.model");
  deberta.write(kConfig, R"({"split_by_punct": false})");
  EXPECT_EQ(deberta.error(), "no error");
  deberta.write(kConfig, R"({"split_by_punct": true})");
  EXPECT_NE(deberta.error().find("split_by_punct"), std::string::npos);
  deberta.write(kConfig, R"({"word_tokenizer_type": "mecab"})");
  EXPECT_NE(deberta.error().find("word_tokenizer_type"), std::string::npos);
  deberta.write(kConfig, R"({"subword_tokenizer_type": "character"})");
  EXPECT_NE(deberta.error().find("subword_tokenizer_type"), std::string::npos);
}

std::string byte_level(bool has_prefix_space) {
  return Json{{"added_tokens", Json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer",
               {{"type", "ByteLevel"},
                {"add_prefix_space", has_prefix_space},
                {"trim_offsets", true},
                {"use_regex", true}}},
              {"post_processor", nullptr},
              {"decoder", nullptr},
              {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}}}}
      .dump();
}

TEST(TokenizerConfig, two_files_that_disagree_on_the_space_before_a_text) {
  const TemporaryFolder folder;
  for (const bool has_space : {false, true}) {
    write_file(folder.path() / "tokenizer.json", byte_level(has_space));
    for (const bool is_said : {false, true}) {
      write_file(folder.path() / kConfig, Json{{"add_prefix_space", is_said}}.dump());
      const std::string error = test::error_of([&] { (void)Tokenizer::load(folder.path()); });
      EXPECT_EQ(error.find("add_prefix_space disagrees") != std::string::npos, is_said != has_space)
          << error;
    }
  }
}

TEST(TokenizerConfig, a_model_that_is_fed_no_type_ids_has_none_but_0) {
  const Folder folder("spm.model");  // DeBERTa's pairs have two types
  const auto types = [&](const std::string& config) {
    folder.write(kConfig, config);
    return folder.load().encode("a", "a", 64).type_ids;
  };
  const std::vector<int32_t> two = types(R"({"tokenizer_class": "DebertaV2Tokenizer"})");
  EXPECT_EQ(two.back(), 1);
  EXPECT_EQ(types(R"({"model_input_names": ["input_ids", "token_type_ids"]})"), two);
  const std::vector<int32_t> none(two.size(), 0);
  EXPECT_EQ(types(R"({"model_input_names": ["input_ids", "attention_mask"]})"), none);
  const TemporaryFolder saved;
  folder.load().save(saved.path());
  EXPECT_EQ(Tokenizer::load(saved.path()).encode("a", "a", 64).type_ids, none);
  // The same tokens: a run that began with the other may go on with this one.
  EXPECT_EQ(folder.load().fingerprint(),
            Tokenizer::load(test::data_file("spm.model")).fingerprint());
  EXPECT_FALSE(folder.load().has_type_ids());
  folder.write(kConfig, R"({"model_input_names": "input_ids"})");
  EXPECT_NE(folder.error().find("model_input_names"), std::string::npos);
}

TEST(TokenizerConfig, a_tokenizer_of_no_family_of_transformers_5_makes_no_type_ids) {
  const TemporaryFolder folder;
  Tokenizer::from_tokens({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}, {})
      .save(folder.path());
  for (const auto& [name, type] : {std::pair<const char*, int32_t>{"TokenizersBackend", 0},
                                   {"PreTrainedTokenizerFast", 1},
                                   {"BertTokenizer", 1}}) {
    write_file(folder.path() / kConfig, Json{{"tokenizer_class", name}}.dump());
    EXPECT_EQ(Tokenizer::load(folder.path()).encode("a", "a", 64).type_ids.back(), type) << name;
  }
}

TEST(TokenizerConfig, albert_s_tokenizer_of_transformers_5_makes_no_type_ids) {
  const Folder folder("spiece.model");
  for (const auto& [backend, type] :
       {std::pair<const char*, int32_t>{R"(, "backend": "tokenizers")", 0}, {"", 1}}) {
    folder.write(kConfig, std::string(R"({"tokenizer_class": "AlbertTokenizer")") + backend + "}");
    EXPECT_EQ(folder.load().encode("a", "a", 64).type_ids.back(), type) << backend;
  }
}

}  // namespace
}  // namespace snug::text
