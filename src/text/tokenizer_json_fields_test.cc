// SPDX-License-Identifier: Apache-2.0
// What a missing field of tokenizer.json means. Source of every expectation: each field was
// removed, and set to null, in a file that the versions 0.13.2, 0.13.3, 0.14.1, 0.15.2, 0.19.1,
// 0.20.3, 0.21.4, 0.22.2 and 0.23.3 of the package `tokenizers` were given to read (they agree),
// and the declarations in the sources of 0.8.1, 0.9.4, 0.10.3, 0.11.6 and 0.12.1 were read.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "snug/error.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

using Json = nlohmann::json;
using Change = std::function<void(Json&)>;

Json bert_processing() {
  return {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
}

// A file as 0.23.3 writes it.
Json complete() {
  Json file = {{"version", "1.0"}};
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 128}, {"strategy", "LongestFirst"}, {"stride", 0}};
  file["padding"] = {{"strategy", {{"Fixed", 128}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "[PAD]"}};
  const std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                           "e",     "E",     "##e",   "é"};
  for (size_t id = 0; id < tokens.size(); ++id) {
    file["model"]["vocab"][tokens[id]] = id;
    if (id >= 5) continue;
    file["added_tokens"].push_back({{"id", id},
                                    {"content", tokens[id]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  file["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}};
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file["post_processor"] = bert_processing();
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file["model"]["type"] = "WordPiece";
  file["model"]["unk_token"] = "[UNK]";
  file["model"]["continuing_subword_prefix"] = "##";
  file["model"]["max_input_chars_per_word"] = 100;
  return file;
}

class TokenizerJsonFields : public ::testing::Test {
 protected:
  Tokenizer load(const Change& change) {
    Json file = complete();
    change(file);
    test::write_file(folder_.path() / "tokenizer.json", file.dump());
    return Tokenizer::load(folder_.path());
  }
  /// The ids of "É ee [MASK]", cut to seven tokens, with those around them.
  std::vector<int32_t> ids(const Change& change) {
    return load(change).encode("É ee [MASK]", std::nullopt, 7).ids;
  }
  void expect_refused(const Change& change, const std::string& text) {
    const std::string error = test::error_of([&] { (void)load(change); });
    EXPECT_NE(error, "no error") << text;
    EXPECT_NE(error.find(text), std::string::npos) << error << "\nshould say: " << text;
  }

 protected:
  test::TemporaryFolder folder_;
};

Change without(const std::string& pointer) {
  const Json::json_pointer path(pointer);
  return [path](Json& file) { file.at(path.parent_pointer()).erase(path.back()); };
}
Change with(const std::string& pointer, Json value) {
  return [path = Json::json_pointer(pointer), value = std::move(value)](Json& file) {
    file[path] = value;
  };
}

const std::vector<int32_t> kIds = {2, 5, 5, 7, 4, 3};

TEST_F(TokenizerJsonFields, missing_fields_that_change_nothing) {
  EXPECT_EQ(ids([](Json&) {}), kIds);
  // Before 0.11 there was no truncation.direction; #[serde(default)] is Right since.
  EXPECT_EQ(ids(without("/truncation/direction")), kIds);
  EXPECT_EQ(ids(without("/truncation")), kIds);
  EXPECT_EQ(ids(with("/truncation", nullptr)), kIds);
  EXPECT_EQ(ids(without("/padding")), kIds);
  EXPECT_EQ(ids(with("/padding", nullptr)), kIds);
  EXPECT_EQ(ids(without("/padding/pad_to_multiple_of")), kIds);
  EXPECT_EQ(ids(without("/version")), kIds);
  EXPECT_EQ(ids(without("/decoder")), kIds);
  EXPECT_EQ(ids(with("/decoder", nullptr)), kIds);
  EXPECT_EQ(ids(without("/model/type")), kIds);  // not written before 0.10
  // An option that is missing is null: accents go where letters become small.
  EXPECT_EQ(ids(without("/normalizer/strip_accents")), kIds);
}

TEST_F(TokenizerJsonFields, missing_fields_that_mean_something) {
  // No added tokens: [MASK] is cut at its brackets, and nothing of it is known.
  EXPECT_EQ(ids(without("/added_tokens")), (std::vector<int32_t>{2, 5, 5, 7, 1, 1, 3}));
  // No normalizer: the text as it stands.
  EXPECT_EQ(ids(without("/normalizer")), (std::vector<int32_t>{2, 1, 5, 7, 4, 3}));
  EXPECT_EQ(ids(with("/normalizer", nullptr)), (std::vector<int32_t>{2, 1, 5, 7, 4, 3}));
  EXPECT_EQ(ids(with("/normalizer/strip_accents", false)),
            (std::vector<int32_t>{2, 8, 5, 7, 4, 3}));
}

TEST_F(TokenizerJsonFields, fields_that_every_version_needs_are_needed) {
  for (const char* field : {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}) {
    expect_refused(without(std::string("/model/") + field), std::string("model has no ") + field);
    expect_refused(with(std::string("/model/") + field, nullptr),
                   std::string("model has a ") + field);
  }
  expect_refused(with("/model/type", nullptr), "model has a type that is no text");
  for (const char* field : {"clean_text", "handle_chinese_chars", "lowercase"}) {
    expect_refused(without(std::string("/normalizer/") + field),
                   std::string("normalizer has no ") + field);
    expect_refused(with(std::string("/normalizer/") + field, nullptr),
                   std::string("normalizer has a ") + field);
  }
  for (const char* field :
       {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}) {
    expect_refused(without(std::string("/added_tokens/4/") + field),
                   std::string("added_tokens has no ") + field);
    expect_refused(with(std::string("/added_tokens/4/") + field, nullptr),
                   std::string("added_tokens has a ") + field);
  }
  expect_refused(with("/added_tokens", nullptr), "added_tokens is not a list");
  for (const char* field : {"max_length", "strategy", "stride"}) {
    expect_refused(without(std::string("/truncation/") + field),
                   std::string("truncation has no ") + field);
    expect_refused(with(std::string("/truncation/") + field, nullptr),
                   std::string("truncation has a ") + field);
  }
  expect_refused(with("/truncation/direction", nullptr), "truncation has a direction");
  expect_refused(without("/padding/direction"), "padding has no direction");
  expect_refused(without("/post_processor/cls"), "post_processor has no cls");
  expect_refused(with("/post_processor/sep", nullptr), "post_processor has a strange sep");
  expect_refused(with("/version", nullptr), "version that is no text");
}

// A model of the same tokens, whose type is found by its fields where the file does not say it.
Change model_of(Json model) {
  return [model = std::move(model)](Json& file) {
    const Json vocabulary = file["model"]["vocab"];
    file["model"] = model;
    if (!model.contains("vocab")) file["model"]["vocab"] = vocabulary;
    file["normalizer"] = nullptr;
  };
}

TEST_F(TokenizerJsonFields, bpe_needs_its_merges) {
  const std::string missing = "model of type 'BPE' has no merges";
  expect_refused(model_of({{"type", "BPE"}, {"unk_token", "[UNK]"}}), missing);
  expect_refused(model_of({{"type", "BPE"}, {"merges", nullptr}}), missing);
  expect_refused(model_of({{"merges", nullptr}}), missing);
  expect_refused(model_of({{"type", "BPE"}, {"merges", 5}}), "model has merges that are no list");
  expect_refused(with("/model/merges", Json::array()), "has the unknown field 'merges'");
  EXPECT_EQ(ids(model_of({{"type", "BPE"}, {"merges", Json::array()}})),
            ids(model_of({{"merges", Json::array()}})));
}

TEST_F(TokenizerJsonFields, a_type_that_is_missing_is_found_by_the_fields) {
  const Json bpe = {
      {"unk_token", "[UNK]"}, {"merges", {"e ##e"}}, {"continuing_subword_prefix", "##"}};
  const auto with_ee = [](const Json& model) {
    return [model](Json& file) {
      file["model"]["vocab"]["ee"] = 9;
      model_of(model)(file);
    };
  };
  EXPECT_EQ(ids(with_ee(bpe)), (std::vector<int32_t>{2, 1, 9, 4, 3}));
  Json unigram = {{"unk_id", 1}, {"byte_fallback", false}};
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "e"})
    unigram["vocab"].push_back({token, -1.0});
  EXPECT_EQ(ids(model_of(unigram)), (std::vector<int32_t>{2, 1, 5, 5, 4, 3}));
}

TEST_F(TokenizerJsonFields, a_vocabulary_that_is_missing_is_said_whatever_the_file_is_called) {
  Json file = complete();
  file["model"].erase("vocab");
  const std::filesystem::path named = folder_.path() / "bpe_no_vocab.json";
  test::write_file(named, file.dump());
  const std::string error = test::error_of([&] { (void)Tokenizer::load(named); });
  EXPECT_NE(error.find("model.vocab is empty or missing"), std::string::npos) << error;
}

// As version 0.23.3 of the package cuts them.
TEST_F(TokenizerJsonFields, kinds_of_steps_that_few_files_have) {
  const auto ids = [&](const char* step, const Json& kind, const std::string& text) {
    const Tokenizer tokenizer = load([&](Json& file) {
      file["normalizer"] = nullptr;
      file[step] = kind;
      for (const char* token : {"e e", "E\u00e9e", " e", "\u00c3\u00a9"})
        file["model"]["vocab"][token] = file["model"]["vocab"].size();
    });
    std::vector<int32_t> found = tokenizer.encode(text, std::nullopt, 64).ids;
    return std::vector<int32_t>(found.begin() + 1, found.end() - 1);
  };
  using Ids = std::vector<int32_t>;
  const Json delimiter = {{"type", "CharDelimiterSplit"}, {"delimiter", "-"}};
  EXPECT_EQ(ids("pre_tokenizer", delimiter, "-e e--e"), (Ids{9, 5}));
  EXPECT_EQ(ids("pre_tokenizer", delimiter, "---"), Ids());
  EXPECT_EQ(ids("pre_tokenizer", {{"type", "FixedLength"}, {"length", 3}}, "E\u00e9e e"),
            (Ids{10, 11}));
  EXPECT_EQ(ids("normalizer", {{"type", "ByteLevel"}}, "\u00e9"), Ids{12});
  EXPECT_EQ(ids("normalizer", {{"type", "ByteLevel"}}, "\u00e9 e"),
            Ids{1});  // one word: the space is U+0120
  for (const Json& kind : {Json{{"type", "CharDelimiterSplit"}, {"delimiter", "--"}},
                           Json{{"type", "FixedLength"}, {"length", 0}}})
    EXPECT_THROW((void)ids("pre_tokenizer", kind, "e"), Error) << kind;
}

TEST_F(TokenizerJsonFields, other_tokens_than_berts_are_refused) {
  expect_refused(with("/version", "1.1"), "version '1.1' is not supported");
  expect_refused(with("/truncation/direction", "Left"), "direction 'Left'");
  expect_refused(with("/padding/direction", "Left"), "padding direction 'Left'");
  // Without one, `tokenizers` puts nothing around a text.
  expect_refused(without("/post_processor"), "there is no post_processor");
  expect_refused(with("/post_processor", nullptr), "there is no post_processor");
  expect_refused(with("/post_processor/cls/1", 4), "gives '[CLS]' another id than model.vocab");
  for (const char* part :
       {"truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "model"}) {
    expect_refused(with(std::string("/") + part + "/new", 1), "has the unknown field 'new'");
  }
  expect_refused(with("/added_tokens/0/new", 1), "added_tokens has the unknown field 'new'");
}

}  // namespace
}  // namespace snug::text
