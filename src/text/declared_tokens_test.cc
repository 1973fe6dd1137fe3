// SPDX-License-Identifier: Apache-2.0
// Tokens that are declared beside a tokenizer: ids as transformers 4.57 and 5.23 give them, and
// refusals where the two differ.
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
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kText = "a <x> <y>  [MASK] b <Y>";

Json token(const std::string& content, const Json& more = {}) {
  Json one{{"content", content},   {"lstrip", false}, {"rstrip", false},
           {"single_word", false}, {"special", true}, {"normalized", false}};
  if (!more.is_null()) one.update(more);
  return one;
}

/// A folder with a small WordPiece tokenizer.json; <x> is a token of its vocabulary, <y> none.
struct Folder {
  Folder() {
    Json vocabulary;
    for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "<x>", "##<",
                             "##x", "##>", "<", "x", ">"})
      vocabulary[name] = static_cast<int>(vocabulary.size());
    Json added = Json::array();
    for (int id = 0; id < 5; ++id) {
      Json one{{"id", id}};
      one.update(token(std::next(vocabulary.begin(), id).key()));
      added.push_back(one);
    }
    write("tokenizer.json",
          {{"version", "1.0"},
           {"added_tokens", added},
           {"normalizer",
            {{"type", "BertNormalizer"},
             {"clean_text", true},
             {"handle_chinese_chars", true},
             {"strip_accents", nullptr},
             {"lowercase", true}}},
           {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
           {"post_processor",
            {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
           {"decoder", nullptr},
           {"model",
            {{"type", "WordPiece"},
             {"unk_token", "[UNK]"},
             {"continuing_subword_prefix", "##"},
             {"max_input_chars_per_word", 100},
             {"vocab", vocabulary}}}});
  }
  void write(const std::string& name, const Json& value) const {
    write_file(temporary.path() / name, value.dump());
  }
  [[nodiscard]] Ids ids(const Json& config, const std::string& text = kText) const {
    write(kConfig, config);
    return Tokenizer::load(temporary.path()).encode(text, std::nullopt, 64).ids;
  }
  [[nodiscard]] std::string error(const Json& config) const {
    write(kConfig, config);
    return test::error_of([this] { (void)Tokenizer::load(temporary.path()); });
  }
  TemporaryFolder temporary;
};

const Ids kPlain{2, 5, 11, 12, 13, 11, 1, 13, 4, 6, 11, 1, 13, 3};
const Ids kBoth{2, 5, 7, 14, 4, 6, 11, 1, 13, 3};        // <x> and <y>
const Ids kX{2, 5, 7, 11, 1, 13, 4, 6, 11, 1, 13, 3};    // <x>
const Ids kY{2, 5, 11, 12, 13, 14, 4, 6, 11, 1, 13, 3};  // <y>
const Ids kLowerY{2, 5, 11, 12, 13, 14, 4, 6, 14, 3};    // <y> of the normalised text
const Json kNormal{{"normalized", true}, {"special", false}};

TEST(DeclaredTokens, special_tokens_of_tokenizer_config_are_cut_out_whole) {
  const Folder folder;
  EXPECT_EQ(folder.ids(Json::object()), kPlain);
  const Json both{"<x>", "<y>"};
  EXPECT_EQ(folder.ids({{"additional_special_tokens", both}}), kBoth);
  EXPECT_EQ(folder.ids({{"extra_special_tokens", both}}), kBoth);
  EXPECT_EQ(folder.ids({{"extra_special_tokens", {{"image_token", "<x>"}}}}), kX);
  EXPECT_EQ(folder.ids({{"additional_special_tokens", {token("<x>")}}}), kX);
  EXPECT_EQ(folder.ids({{"eos_token", "<y>"}}), kY);
  EXPECT_EQ(folder.ids({{"mask_token", "<y>"}}), kY);
  EXPECT_EQ(folder.ids({{"eos_token", ""}, {"bos_token", nullptr}}), kPlain);
}

TEST(DeclaredTokens, a_declared_token_is_kept_by_a_checkpoint) {
  const Folder folder;
  folder.write(kConfig, {{"additional_special_tokens", {"<y>", "<x>"}}, {"mask_token", "[MASK]"}});
  const Tokenizer tokenizer = Tokenizer::load(folder.temporary.path());
  EXPECT_EQ(tokenizer.vocab_size(), 15);
  EXPECT_EQ(tokenizer.mask_id(), 4);
  const TemporaryFolder saved;
  tokenizer.save(saved.path());
  const Tokenizer again = Tokenizer::load(saved.path());
  EXPECT_EQ(again.encode(kText, std::nullopt, 64).ids, kBoth);
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
}

TEST(DeclaredTokens, added_tokens_decoder_counts_before_tokenizer_json) {
  const Folder folder;
  const auto decoder = [](const char* id, const Json& one) {
    return Json{{"added_tokens_decoder", {{id, one}}}};
  };
  EXPECT_EQ(folder.ids(decoder("14", token("<y>", kNormal))), kLowerY);
  EXPECT_EQ(folder.ids(decoder("7", token("<x>"))), kX);
  EXPECT_EQ(folder.ids(decoder("4", token("[MASK]", {{"single_word", true}})), "a[MASK] b"),
            (Ids{2, 5, 1, 1, 1, 6, 3}));  // [MASK] stands in a word: its parts are no tokens
  EXPECT_NE(folder.error(decoder("20", token("<y>")))
                .find("gives '<y>' id 20; by the vocabulary it is 14"),
            std::string::npos);
  EXPECT_NE(folder.error(decoder("5", token("[MASK]"))).find("id 5; by the vocabulary it is 4"),
            std::string::npos);
}

TEST(DeclaredTokens, older_files_count_where_there_is_no_added_tokens_decoder) {
  const Folder folder;
  folder.write(kMap, {{"additional_special_tokens", {"<x>", token("<y>", {{"lstrip", true}})}},
                      {"bos_token", "<b>"}});
  const Ids with_b{2, 5, 7, 15, 4, 6, 11, 1, 13, 3};  // <b> comes first
  EXPECT_EQ(folder.ids(Json::object()), with_b);
  EXPECT_EQ(folder.ids({{"bos_token", "a"}}), with_b);
  EXPECT_EQ(folder.ids({{"added_tokens_decoder", {{"14", token("<y>")}}}}), kY);
  folder.write(kMap, Json::object());
  folder.write(kAdded, {{"<y>", 14}});
  EXPECT_EQ(folder.ids(Json::object()), kLowerY);
  EXPECT_EQ(folder.ids({{"additional_special_tokens", {"<y>"}}}), kY);
  folder.write(kAdded, {{"<y>", 15}});
  EXPECT_NE(folder.error(Json::object()).find("added_tokens.json gives '<y>' id 15"),
            std::string::npos);
  folder.write(kAdded, {{"<y>", "fourteen"}});
  EXPECT_NE(folder.error(Json::object()).find("no count"), std::string::npos);
}

TEST(DeclaredTokens, older_files_count_beside_a_vocab_txt) {
  const TemporaryFolder folder;
  write_file(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n<\n>\ny\n");
  const auto ids = [&] {
    return Tokenizer::load(folder.path()).encode("a <y> b", std::nullopt, 64).ids;
  };
  EXPECT_EQ(ids(), (Ids{2, 5, 7, 9, 8, 6, 3}));
  write_file(folder.path() / kAdded, R"({"<y>": 10})");
  EXPECT_EQ(ids(), (Ids{2, 5, 10, 6, 3}));
  const TemporaryFolder saved;
  Tokenizer::load(folder.path()).save(saved.path());
  EXPECT_EQ(Tokenizer::load(saved.path()).fingerprint(),
            Tokenizer::load(folder.path()).fingerprint());
}

TEST(DeclaredTokens, a_sentencepiece_model_keeps_them) {
  const TemporaryFolder folder;
  write_file(folder.path() / "spm.model", test::read_file(test::data_file("spm.model")));
  const Tokenizer plain = Tokenizer::load(folder.path());
  write_file(folder.path() / kConfig, R"({"additional_special_tokens": ["<y>"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.vocab_size(), plain.vocab_size() + 1);
  Ids wanted = plain.encode("a [MASK] human", std::nullopt, 64).ids;
  for (int32_t& id : wanted)
    id = id == plain.mask_id() ? static_cast<int32_t>(plain.vocab_size()) : id;
  EXPECT_EQ(tokenizer.encode("a <y> human", std::nullopt, 64).ids, wanted);
  const TemporaryFolder saved;
  tokenizer.save(saved.path());
  const Tokenizer again = Tokenizer::load(saved.path());
  EXPECT_EQ(again.encode("a <y> human", std::nullopt, 64).ids, wanted);
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
}

TEST(DeclaredTokens, what_versions_of_transformers_read_differently_is_refused) {
  const Folder folder;
  EXPECT_EQ(folder.ids({{"x_token", "[MASK]"}, {"add_bos_token", false}}), kPlain);
  EXPECT_NE(folder.error({{"x_token", "<x>"}}).find("x_token '<x>' is no added token"),
            std::string::npos);
  EXPECT_NE(folder.error({{"tokenizer_class", "BertTokenizer"}, {"cls_token", "<x>"}})
                .find("cls_token disagrees"),
            std::string::npos);
  EXPECT_EQ(folder.ids({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"cls_token", "<x>"}}), kX);
  EXPECT_NE(folder.error({{"split_special_tokens", true}}).find("split_special_tokens"),
            std::string::npos);
  EXPECT_NE(folder.error({{"additional_special_tokens", "<x>"}}).find("no list"),
            std::string::npos);
  EXPECT_NE(folder.error({{"mask_token", 4}}).find("mask_token that is no token"),
            std::string::npos);
}

}  // namespace
}  // namespace snug::text
