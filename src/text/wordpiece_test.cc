// SPDX-License-Identifier: Apache-2.0
// Token for token against what the `tokenizers` package made of hard and random Unicode
// (tools/golden/wordpiece.py).
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "text/test_support.h"

namespace snug::text {

using test::data_file;
using test::read_file;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

Json read_json(const std::string& name) {
  std::ifstream in(data_file(name));
  return Json::parse(in);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

BertNormalizerOptions options_of(const Json& variant) {
  BertNormalizerOptions options;
  options.clean_text = variant["clean_text"].get<bool>();
  options.handle_chinese_chars = variant["handle_chinese_chars"].get<bool>();
  options.lowercase = variant["lowercase"].get<bool>();
  if (!variant["strip_accents"].is_null())
    options.strip_accents = variant["strip_accents"].get<bool>();
  return options;
}

uint32_t hash_of(const Ids& ids) {
  std::string text;
  for (int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  uint32_t hash = 0x811C9DC5u;
  for (char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x01000193u;
  return hash;
}

TEST(WordPiece, random_and_hard_unicode_equals_the_package) {
  const Json golden = read_json("wordpiece_golden.json");
  const auto vocabulary = golden["vocabulary"].get<std::vector<std::string>>();
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 1500u);
  for (const auto& [name, variant] : golden["variants"].items()) {
    const auto tokenizer = Tokenizer::from_tokens(vocabulary, options_of(variant));
    int64_t known = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Ids ids = encode(tokenizer, texts[i]);
      if (name == "uncased" && i < golden["hard_ids"].size()) {
        EXPECT_EQ(ids, golden["hard_ids"][i].get<Ids>()) << i;
      }
      ASSERT_EQ(hash_of(ids), golden["id_hashes"][name][i].get<uint32_t>())
          << name << " text " << i << ": " << golden["texts"][i].dump(-1, ' ', true);
      known += std::count_if(ids.begin(), ids.end(), [](int32_t id) { return id > 4; });
    }
    EXPECT_GT(known, 6000) << name << ": the golden texts must not be all unknown";
  }
}

TEST(WordPiece, every_code_point_becomes_what_the_package_makes_of_it) {
  const Json golden = read_json("wordpiece_golden.json");
  for (const auto& [name, hashes] : golden["code_points"].items()) {
    const BertNormalizer normalizer(options_of(golden["variants"][name]));
    ASSERT_EQ(hashes.size(), 272u);
    BertNormalizer::Marks marks;
    std::string text, normalized;
    for (char32_t block = 0; block < 272; ++block) {
      text.clear();
      normalized.clear();
      for (char32_t c = block * 4096; c < (block + 1) * 4096; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        text += 'x';
        append_utf8(c, text);
        text += "y ";
      }
      normalizer.normalize(text, marks, normalized);
      uint64_t hash = TokenTable::kHashSeed;
      bool is_first = true;
      for_each_word(normalized, [&](std::string_view word) {
        if (!is_first) hash = TokenTable::hash_more(hash, "|");
        hash = TokenTable::hash_more(hash, word);
        is_first = false;
      });
      char hex[20];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
      EXPECT_EQ(hashes[block].get<std::string>(), hex) << name << " U+" << std::hex << block * 4096;
    }
  }
}

TEST(WordPiece, tokenizer_json_of_the_package_gives_its_tokens) {
  const auto tokenizer = Tokenizer::load(data_file("package_tokenizer.json"));
  const Json golden = read_json("package_golden.json");
  for (size_t i = 0; i < golden["texts"].size(); ++i) {
    EXPECT_EQ(encode(tokenizer, golden["texts"][i].get<std::string>()), golden["ids"][i].get<Ids>())
        << golden["texts"][i];
  }
  for (const Json& pair : golden["pairs"]) {
    const auto text = pair["text"].get<std::string>();
    std::optional<std::string> second;
    if (!pair["pair"].is_null()) second = pair["pair"].get<std::string>();
    const Encoding encoding = tokenizer.encode(text, second, pair["length"].get<int64_t>());
    EXPECT_EQ(encoding.ids, pair["ids"].get<Ids>()) << pair;
    EXPECT_EQ(encoding.type_ids, pair["type_ids"].get<Ids>()) << pair;
    const Encoding whole = tokenizer.encode(text, second, 1000);
    EXPECT_EQ(encoding.untruncated_length, static_cast<int64_t>(whole.ids.size()));
    EXPECT_EQ(encoding.truncated, encoding.ids.size() < whole.ids.size());
  }
}

TEST(WordPiece, a_model_without_token_types_gets_a_tokenizer_that_makes_none) {
  const auto tokenizer =
      Tokenizer::from_tokens({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}, {});
  const test::TemporaryFolder folder;
  const auto names_of = [&](bool has_type_ids) {
    tokenizer.save(folder.path(), {}, has_type_ids);
    EXPECT_EQ(Tokenizer::load(folder.path()).vocab_size(), 6);
    return Json::parse(read_file(folder.path() / "tokenizer_config.json"))
        .value("model_input_names", Json());
  };
  EXPECT_TRUE(names_of(true).is_null());  // transformers' own
  EXPECT_EQ(names_of(false), (Json{"input_ids", "attention_mask"}));
}

TEST(WordPiece, save_and_load_give_the_same_tokenizer) {
  const Json golden = read_json("wordpiece_golden.json");
  const auto vocabulary = golden["vocabulary"].get<std::vector<std::string>>();
  const test::TemporaryFolder folder;
  for (const auto& [name, variant] : golden["variants"].items()) {
    const auto tokenizer = Tokenizer::from_tokens(vocabulary, options_of(variant));
    const auto saved = folder.path() / name;
    tokenizer.save(saved);
    const auto again = Tokenizer::load(saved);
    again.save(saved / "second");
    for (const char* file : {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}) {
      EXPECT_EQ(read_file(saved / file), read_file(saved / "second" / file)) << name << " " << file;
    }
    EXPECT_EQ(again.vocab_size(), static_cast<int64_t>(vocabulary.size()));
    EXPECT_EQ(again.token(again.mask_id()), "[MASK]");
    const bool is_plain =
        options_of(variant).clean_text;  // vocab.txt alone cannot say clean_text: false
    if (is_plain) std::filesystem::remove(saved / "tokenizer.json");
    const auto from_lines = Tokenizer::load(saved);
    for (const Json& text : golden["texts"]) {
      const auto expected = encode(tokenizer, text.get<std::string>());
      ASSERT_EQ(encode(again, text.get<std::string>()), expected) << name << text;
      ASSERT_EQ(encode(from_lines, text.get<std::string>()), expected) << name << text;
    }
  }
  // Added tokens of every kind survive too.
  const auto package = Tokenizer::load(data_file("package_tokenizer.json"));
  package.save(folder.path() / "package");
  const auto again = Tokenizer::load(folder.path() / "package");
  EXPECT_EQ(again.vocab_size(), package.vocab_size());
  EXPECT_EQ(again.token(again.vocab_size() - 1), "[NEW]");
  const Json inputs = read_json("package_golden.json");
  for (const Json& text : inputs["texts"]) {
    EXPECT_EQ(encode(again, text.get<std::string>()), encode(package, text.get<std::string>()))
        << text;
  }
}

// Ids as transformers 4.57 gives them (load_vocab: each line has an id, the last of a token
// counts).
TEST(WordPiece, a_repeated_token_and_an_empty_line_shift_no_id) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "vocab.txt";
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfoo\nbar\n\nfoo\nbaz\n";
  for (int i = 0; i < 100; ++i) text += "word" + std::to_string(i % 60) + "\n";  // grows the table
  test::write_file(file, text + "\n\n");
  const auto check = [](const Tokenizer& tokenizer) {
    EXPECT_EQ(encode(tokenizer, "foo bar baz"), (Ids{8, 6, 9}));
    EXPECT_EQ(encode(tokenizer, "word0 word59 word39"), (Ids{70, 69, 109}));
    EXPECT_EQ(tokenizer.vocab_size(), 110);
  };
  const auto tokenizer = Tokenizer::load(file);
  check(tokenizer);
  tokenizer.save(folder.path() / "saved");
  EXPECT_EQ(read_file(folder.path() / "saved/vocab.txt"), text);
  check(Tokenizer::load(folder.path() / "saved/vocab.txt"));
  check(Tokenizer::load(folder.path() / "saved/tokenizer.json"));
  // In JSON the last of a key counts, whatever its id.
  std::string json = read_file(folder.path() / "saved/tokenizer.json");
  json.replace(json.find("\"foo\": 8"), 8, "\"foo\": 5, \"foo\": 8");
  test::write_file(folder.path() / "twice.json", json);
  check(Tokenizer::load(folder.path() / "twice.json"));
}

TEST(WordPiece, approximate_bytes_is_what_the_heap_holds) {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int i = 0; i < 30517; ++i)
    tokens.push_back((i % 3 == 0 ? "token" : "##piece") + std::to_string(i));
  const int64_t before = test::live_heap_bytes();
  const auto tokenizer = Tokenizer::from_tokens(tokens, {});
  const int64_t held = test::live_heap_bytes() - before;
  EXPECT_NEAR(static_cast<double>(tokenizer.approximate_bytes()), static_cast<double>(held),
              4096.0);
  EXPECT_LT(held, 1 << 20);
}

TEST(WordPiece, warm_encoding_allocates_nothing) {
  const auto tokenizer = Tokenizer::load(data_file("package_tokenizer.json"));
  EncodeScratch scratch;
  Encoding encoding;
  const std::string text =
      "Hello hellos [MASK] e\u0301a \u4e2d qx zz \u0323\u0301 hello world, a b c";
  tokenizer.encode(text, text, 32, encoding, scratch);
  const int64_t before = test::heap_allocations();
  for (int i = 0; i < 10; ++i) tokenizer.encode(text, text, 32, encoding, scratch);
  EXPECT_EQ(test::heap_allocations() - before, 0);
}

}  // namespace
}  // namespace snug::text
