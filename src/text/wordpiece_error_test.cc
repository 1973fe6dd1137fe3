// SPDX-License-Identifier: Apache-2.0
// Broken, truncated and unsupported tokenizer files: one clear error each, never a crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

using Json = nlohmann::json;
using test::error_of;
using test::TemporaryFolder;
using test::write_file;

constexpr const char* kLines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n";

void expect_error(const std::string& error, const std::string& code, const std::string& text) {
  EXPECT_TRUE(error.starts_with(code + " ")) << error;
  EXPECT_NE(error.find(text), std::string::npos) << error << "\nshould say: " << text;
}

std::string load_error(const std::filesystem::path& path) {
  return error_of([&] { (void)Tokenizer::load(path); });
}

TEST(WordPieceErrors, vocab_txt_that_is_no_vocabulary) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "vocab.txt";
  const auto error = [&](const std::string& text) {
    write_file(file, text);
    return load_error(file);
  };
  EXPECT_EQ(error(kLines), "no error");
  EXPECT_EQ(error("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nlast"), "no error");
  expect_error(error(""), "bad_data", "the vocabulary is empty");
  expect_error(error(std::string(kLines) + std::string(5'000'000, 'x')), "bad_data",
               "line 8 has more than 4000 bytes");
  expect_error(error(std::string(kLines) + "b\xff\n"), "bad_data",
               "line 8] invalid UTF-8 at byte 1 (0xff)");
  expect_error(error("[UNK]\n[CLS]\n[SEP]\n"), "bad_data", "no pad token '[PAD]'");
  expect_error(error("[PAD]\n[CLS]\n[SEP]\n"), "bad_data", "no unk token '[UNK]'");
  expect_error(error("[PAD]\n[UNK]\n[SEP]\n"), "bad_data", "no cls token '[CLS]'");
  expect_error(error("[PAD]\n[UNK]\n[CLS]\n"), "bad_data", "no sep token '[SEP]'");
}

TEST(WordPieceErrors, paths_that_lead_nowhere) {
  const TemporaryFolder folder;
  expect_error(load_error(folder.path() / "none"), "io", "there is no such file or folder");
  std::filesystem::create_symlink("nowhere", folder.path() / "link");
  expect_error(load_error(folder.path() / "link"), "io",
               "is a symbolic link to 'nowhere', which does not exist");
  expect_error(load_error(folder.path()), "io", "neither tokenizer.json nor vocab.txt");
}

TEST(WordPieceErrors, files_of_a_folder_that_are_links_to_nothing) {
  const TemporaryFolder folder;
  write_file(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "added_tokens.json", "config.json"}) {
    const std::filesystem::path file = folder.path() / name;
    std::filesystem::create_symlink("nowhere", file);
    expect_error(load_error(folder.path()), "io",
                 std::string(name) + "] is a symbolic link to 'nowhere'");
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    expect_error(load_error(folder.path()), "io", std::string(name) + "] is a folder, not a file");
    std::filesystem::remove(file);
  }
  // What is not read in place of another file is no reason to refuse that one.
  std::filesystem::create_symlink("nowhere", folder.path() / "spiece.model");
  (void)Tokenizer::load(folder.path());
}

TEST(WordPieceErrors, tokenizer_config_is_honoured_or_refused) {
  const TemporaryFolder folder;
  write_file(folder.path() / "vocab.txt", "<p>\n<u>\n<c>\n<s>\nA\na\n");
  const auto error = [&](const std::string& config) {
    write_file(folder.path() / "tokenizer_config.json", config);
    return load_error(folder.path());
  };
  const std::string roles =
      R"("pad_token": "<p>", "unk_token": {"content": "<u>"}, "cls_token": "<c>", "sep_token": "<s>")";
  EXPECT_EQ(error("{" + roles + ", \"do_lower_case\": false}"), "no error");
  const auto tokenizer = Tokenizer::load(folder.path());
  std::vector<int32_t> ids;
  tokenizer.encode("A a <s>", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{4, 5, 3}));
  EXPECT_EQ(tokenizer.mask_id(), -1);
  EXPECT_EQ(tokenizer.pad_id(), 0);
  expect_error(error("{" + roles), "bad_data", "broken JSON");
  const std::string deep =
      R"({"pad_token": )" + std::string(500'000, '[') + std::string(500'000, ']') + "}";
  expect_error(error(deep), "bad_data", "nested deeper than 64 levels");
  std::string wide = R"({"x": [0)";
  for (int i = 0; i < 300'000; ++i) wide += ",0";
  expect_error(error(wide + "]}"), "bad_data", "more than 200000 values");
  expect_error(error(R"({"do_lower_case": true, "do_lower_case": false})"), "bad_data",
               "stands twice");
  expect_error(error("[]"), "unsupported", "tokenizer_config is not an object");
  expect_error(error("{" + roles + ", \"do_lower_case\": 1}"), "unsupported",
               "do_lower_case that is neither true nor false");
  expect_error(error("{" + roles + ", \"do_basic_tokenize\": false}"), "unsupported",
               "do_basic_tokenize");
  expect_error(error("{" + roles + ", \"truncation_side\": \"middle\"}"), "unsupported",
               "truncation_side of 'middle'");
  expect_error(
      error("{" + roles + ", \"truncation_side\": \"left\", \"snug_overlong\": \"window\"}"),
      "unsupported", "truncation_side of left and a snug_overlong of 'window'");
  expect_error(error("{" + roles + ", \"padding_side\": \"left\"}"), "unsupported",
               "padding_side 'left'");
  expect_error(error("{" + roles + ", \"never_split\": [\"x\"]}"), "unsupported", "never_split");
  expect_error(error("{" + roles + ", \"tokenizer_class\": \"BertJapaneseTokenizer\"}"),
               "unsupported", "BertJapaneseTokenizer");
  expect_error(error("{" + roles + R"(, "added_tokens_decoder": {"9": {"content": "new"}}})"),
               "bad_data", "'new' id 9");
  expect_error(error("{" + roles + R"(, "added_tokens_decoder": {"9x": {"content": "new"}}})"),
               "unsupported", "'9x'");
}

TEST(WordPieceErrors, tokenizer_json_that_asks_for_what_is_not_supported) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokenizer.json";
  const Json good = Json::parse(test::read_file(test::data_file("package_tokenizer.json")));
  const auto error = [&](const std::function<void(Json&)>& change) {
    Json changed = good;
    change(changed);
    write_file(file, changed.dump());
    return load_error(file);
  };
  EXPECT_EQ(error([](Json&) {}), "no error");
  // Deep enough to end the stack of whoever prints it.
  write_file(file,
             R"({"model": {"unk_token": "a", "continuing_subword_prefix": "##", "vocab": {"a": 0},)"
             R"("max_input_chars_per_word": )" +
                 std::string(500'000, '[') + std::string(500'000, ']') + "}}");
  expect_error(load_error(file), "bad_data", "nested deeper than 64 levels");
  // The vocabulary itself is no part of the document: it is read whole, up to the added tokens.
  expect_error(error([](Json& j) {
                 for (size_t i = j["model"]["vocab"].size(); i < 120'000; ++i)
                   j["model"]["vocab"]["t" + std::to_string(i)] = i;
               }),
               "bad_data", "'zz' id 19; it must be 120000");
  write_file(file, R"({"model": {"vocab": {"a": 0}}, "model": {}})");
  expect_error(load_error(file), "bad_data", "the key \"model\" stands twice");
  std::filesystem::resize_file(file, (32 << 20) + 1);
  expect_error(load_error(file), "bad_data", "at most 32.0 MiB are read");
  expect_error(error([](Json& j) { j["normalizer"]["type"] = "NFC"; }), "unsupported",
               "normalizer has the unknown field 'clean_text'");
  expect_error(error([](Json& j) { j["normalizer"]["type"] = "NFX"; }), "unsupported",
               "normalizer 'NFX' is not supported");
  expect_error(error([](Json& j) { j["normalizer"]["new"] = 1; }), "unsupported",
               "normalizer has the unknown field 'new'");
  expect_error(error([](Json& j) { j["pre_tokenizer"]["type"] = "ByteLevel"; }), "unsupported",
               "pre_tokenizer has no trim_offsets");
  expect_error(error([](Json& j) { j["pre_tokenizer"]["type"] = "UnicodeScripts"; }), "unsupported",
               "pre_tokenizer 'UnicodeScripts' is not supported");
  const auto as_bpe = [](Json& j) {
    j["model"]["type"] = "BPE";
    j["model"]["merges"] = Json::array();
  };
  expect_error(error(as_bpe), "unsupported",
               "model has the unknown field 'max_input_chars_per_word'");
  expect_error(error([](Json& j) { j["model"]["type"] = "WordLevel"; }), "unsupported",
               "model type 'WordLevel' is not supported");
  expect_error(error([](Json& j) { j["model"]["type"] = "Unigram"; }), "unsupported",
               "has a vocabulary of another form");
  expect_error(error([](Json& j) { j["model"].erase("unk_token"); }), "unsupported",
               "model has no unk_token");
  expect_error(error([](Json& j) { j["model"]["dropout"] = 0.1; }), "unsupported",
               "model has the unknown field 'dropout'");
  expect_error(error([](Json& j) { j["model"]["max_input_chars_per_word"] = -1; }), "unsupported",
               "no count: -1");
  expect_error(error([](Json& j) { j["model"]["max_input_chars_per_word"] = 10'001; }),
               "unsupported", "max_input_chars_per_word of 10001, above 10000");
  expect_error(error([](Json& j) { j["model"]["vocab"] = Json::object(); }), "bad_data",
               "model.vocab is empty");
  expect_error(error([](Json& j) { j["model"]["vocab"] = Json::array({1}); }), "bad_data",
               "\"vocab\" has an item of another form");
  expect_error(error([](Json& j) { j["model"]["vocab"]["a"] = "5"; }), "bad_data",
               "gives 'a' an id that is no whole number");
  expect_error(error([](Json& j) { j["model"]["vocab"]["a"] = Json::object(); }), "bad_data",
               "gives 'a' an id");
  expect_error(error([](Json& j) { j["model"]["vocab"]["a"] = 6; }), "bad_data", "model.vocab");
  expect_error(error([](Json& j) { j["model"]["vocab"]["a"] = 2'000'000'000; }), "bad_data",
               "tokens and ids to 2000000000");
  expect_error(error([](Json& j) { j["added_tokens"][0]["id"] = 99; }), "bad_data",
               "id 99; it must be");
  expect_error(error([](Json& j) { j["added_tokens"][0]["content"] = ""; }), "unsupported",
               "empty content");
  expect_error(error([](Json& j) { j["added_tokens"] = 3; }), "bad_data",
               "added_tokens is not a list");
  expect_error(error([](Json& j) { j["post_processor"]["type"] = "RobertaProcessing"; }),
               "unsupported", "post_processor has the unknown field 'pair'");
  expect_error(error([](Json& j) { j["post_processor"]["single"].erase(1); }), "unsupported",
               "a template 'single' that does not hold the text once");
  expect_error(
      error([](Json& j) { j["post_processor"]["pair"][0]["SpecialToken"]["type_id"] = 2; }),
      "unsupported", "a type_id of 2, above 1");
  expect_error(error([](Json& j) { j["post_processor"]["single"] = Json::array(); }), "unsupported",
               "a template 'single' that does not hold the text once");
  expect_error(error([](Json& j) {
                 j["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {1, 2};
               }),
               "unsupported", "other ids");
  expect_error(error([](Json& j) {
                 j["truncation"] = {{"direction", "Left"}, {"strategy", "LongestFirst"}};
               }),
               "unsupported", "direction 'Left'");
  expect_error(error([](Json& j) { j["extra"] = 1; }), "unsupported",
               "tokenizer has the unknown field 'extra'");
  expect_error(error([](Json& j) { j = Json::array(); }), "unsupported",
               "tokenizer is not an object");
  // tokenizer_config.json that says something else.
  write_file(file, good.dump());
  write_file(folder.path() / "tokenizer_config.json", "{\"do_lower_case\": false}");
  expect_error(load_error(folder.path()), "bad_config", "do_lower_case disagrees with");
}

TEST(WordPieceErrors, every_prefix_and_many_mutations_of_a_file_fail_cleanly) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokenizer.json";
  const std::string text =
      R"({"added_tokens":[{"id":4,"content":"[M]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true},)"
      R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},)"
      R"("model":{"unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":9,)"
      R"("vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[M]":4,"a":5,"##\u00e9":6}}})";
  write_file(file, text);
  ASSERT_EQ(load_error(file), "no error");
  for (size_t size = 0; size < text.size(); ++size) {
    write_file(file, text.substr(0, size));
    const std::string error = load_error(file);
    ASSERT_TRUE(error.starts_with("bad_data ") || error.starts_with("unsupported "))
        << size << ": " << error;
  }
  PhiloxStream random(9);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = text;
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      const size_t at = random.below(changed.size());
      changed[at] = "{}[]\",:0129-.eE\\u\x80\xffz"[random.below(20)];
    }
    write_file(file, changed);
    const std::string error = load_error(file);  // any other exception than Error fails the test
    refused += error != "no error";
    ASSERT_FALSE(error.starts_with("internal")) << error;
  }
  EXPECT_GT(refused, 500);
}

TEST(WordPieceErrors, deep_nesting_does_not_overflow_the_stack) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokenizer.json";
  write_file(file, "{\"model\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}");
  expect_error(load_error(file), "bad_data", "nested deeper than 64 levels");
}

TEST(WordPieceErrors, text_that_is_not_utf8_names_the_byte) {
  const auto tokenizer = Tokenizer::load(test::data_file("package_tokenizer.json"));
  std::vector<int32_t> ids;
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xe4\xb8"}) {
    const std::string text = "0123456789" + std::string(bad);
    expect_error(error_of([&] { tokenizer.encode(text, ids); }), "bad_data",
                 "[text] invalid UTF-8 at byte 10 (0x");
    EXPECT_TRUE(ids.empty());
  }
  expect_error(error_of([&] { (void)tokenizer.encode("a", "b\xff", 10); }), "bad_data",
               "[text pair] invalid UTF-8 at byte 1");
  expect_error(error_of([&] { (void)tokenizer.encode("a", std::nullopt, 1); }), "bad_config",
               "[max_seq_length] 1 has no room");
  expect_error(error_of([&] { (void)tokenizer.encode("a", "b", 2); }), "bad_config",
               "room for the 3 tokens");
  expect_error(error_of([&] { (void)tokenizer.token(1000); }), "bad_data", "no token with id 1000");
  expect_error(error_of([&] { (void)tokenizer.token(-1); }), "bad_data", "no token with id -1");
}

TEST(WordPieceErrors, folder_that_cannot_be_written) {
  const auto tokenizer = Tokenizer::load(test::data_file("package_tokenizer.json"));
  const TemporaryFolder folder;
  write_file(folder.path() / "file", "x");
  expect_error(error_of([&] { tokenizer.save(folder.path() / "file"); }), "io", "cannot");
}

}  // namespace
}  // namespace snug::text
