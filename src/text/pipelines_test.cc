// SPDX-License-Identifier: Apache-2.0
// Tokenizers of every kind, token for token against the `tokenizers` package on hard and random
// Unicode (tools/golden/pipelines.py); and what they are when they were saved and read again.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {

using test::data_file;
using test::error_of;
using test::live_heap_bytes;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;

namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

Json read_json(const std::string& name) {
  std::ifstream in(data_file(name));
  return Json::parse(in);
}

struct Golden {
  Json pipelines = read_json("pipelines_golden.json");
  std::vector<std::string> texts = pipelines["hard"].get<std::vector<std::string>>();

  Golden() {
    const Json more = read_json("wordpiece_golden.json");
    for (const Json& text : more["texts"]) texts.push_back(text.get<std::string>());
  }
};

const Golden& golden() {
  static const Golden golden;
  return golden;
}

uint32_t hash_of(const std::string& text) {
  uint32_t hash = 0x811C9DC5u;
  for (char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x01000193u;
  return hash;
}

std::string line_of(const Ids& ids) {
  std::string text;
  for (int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

void expect_ids(const Tokenizer& tokenizer, const Json& golden_case, const std::string& name) {
  const std::vector<std::string>& texts = golden().texts;
  const auto block = golden().pipelines["block"].get<size_t>();
  EncodeScratch scratch;
  Encoding encoding;
  for (size_t begin = 0; begin < texts.size(); begin += block) {
    std::string lines;
    for (size_t i = begin; i < std::min(begin + block, texts.size()); ++i) {
      tokenizer.encode(texts[i], std::nullopt, 1 << 20, encoding, scratch);
      lines += (i == begin ? "" : ";") + line_of(encoding.ids);
    }
    ASSERT_EQ(hash_of(lines), golden_case["hashes"][begin / block].get<uint32_t>())
        << name << " texts from " << begin;
  }
}

TEST(Pipelines, hard_and_random_unicode_equals_the_package) {
  const TemporaryFolder folder;
  for (const auto& [name, one] : golden().pipelines["cases"].items()) {
    write_file(folder.path() / "tokenizer.json", one["file"].dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    expect_ids(tokenizer, one, name);
    for (const Json& pair : one["pairs"]) {
      std::optional<std::string> second;
      if (!pair["pair"].is_null()) second = pair["pair"].get<std::string>();
      const Encoding encoding =
          tokenizer.encode(pair["text"].get<std::string>(), second, pair["length"].get<int64_t>());
      EXPECT_EQ(encoding.ids, pair["ids"].get<Ids>()) << name << pair;
      EXPECT_EQ(encoding.type_ids, pair["type_ids"].get<Ids>()) << name << pair;
    }
  }
}

TEST(Pipelines, a_saved_tokenizer_is_the_same) {
  const TemporaryFolder folder;
  for (const auto& [name, one] : golden().pipelines["cases"].items()) {
    const auto file = folder.path() / (name + ".json");
    write_file(file, one["file"].dump());
    const Tokenizer tokenizer = Tokenizer::load(file);
    const auto saved = folder.path() / name;
    tokenizer.save(saved);
    const Tokenizer again = Tokenizer::load(saved);
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint()) << name;
    EXPECT_EQ(again.vocab_size(), tokenizer.vocab_size()) << name;
    EXPECT_EQ(again.pad_id(), tokenizer.pad_id()) << name;
    EXPECT_EQ(again.mask_id(), tokenizer.mask_id()) << name;
    EXPECT_EQ(again.token(again.pad_id()), "<pad>");
    expect_ids(again, one, name);
    again.save(saved / "second");
    EXPECT_EQ(read_file(saved / "tokenizer.json"), read_file(saved / "second" / "tokenizer.json"))
        << name;
  }
}

TEST(Pipelines, vocab_json_and_merges_txt_are_roberta) {
  const TemporaryFolder folder;
  const Json& one = golden().pipelines["cases"]["roberta"];
  const Json& model = one["file"]["model"];
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  const auto file = folder.path() / "vocab.json";
  write_file(file, model["vocab"].dump());
  const auto error = [&] { return error_of([&] { (void)Tokenizer::load(folder.path()); }); };
  EXPECT_NE(error().find("merges.txt"), std::string::npos) << error();
  write_file(folder.path() / "merges.txt", merges);
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  expect_ids(tokenizer, one, "vocab.json");
  EXPECT_EQ(tokenizer.encode("a", "b", 64).type_ids, std::vector<int32_t>(6, 0));
  tokenizer.save(folder.path() / "saved");
  expect_ids(Tokenizer::load(folder.path() / "saved"), one, "saved");

  write_file(folder.path() / "merges.txt", merges + "a b c\n");
  EXPECT_NE(error().find("is no merge of two tokens"), std::string::npos) << error();
  write_file(folder.path() / "merges.txt", merges + "zz zz\n");
  EXPECT_NE(error().find("needs the token 'zz', which the vocabulary lacks"), std::string::npos)
      << error();
  write_file(folder.path() / "merges.txt", merges);
  write_file(folder.path() / "tokenizer_config.json", R"({"tokenizer_class":"CLIPTokenizer"})");
  EXPECT_NE(error().find("'CLIPTokenizer' is neither RoBERTa's nor GPT-2's"), std::string::npos)
      << error();
  write_file(file, R"({"<s>": 0, "a": "b"})");
  EXPECT_NE(error().find("the vocabulary gives 'a' an id that is no whole number"),
            std::string::npos)
      << error();
}

/// `again` is `tokenizer`, saved and loaded.
void expect_sentencepiece_ids(const Tokenizer& tokenizer, const Tokenizer& again, const Json& one,
                              const std::string& name) {
  constexpr size_t kBlock = 20;
  const auto places = one["texts"].get<std::vector<size_t>>();
  for (size_t begin = 0; begin < places.size(); begin += kBlock) {
    std::string lines;
    for (size_t i = begin; i < std::min(begin + kBlock, places.size()); ++i) {
      Ids ids;
      (i % 2 == 0 ? tokenizer : again).encode(golden().texts[places[i]], ids);
      lines += (i == begin ? "" : ";") + line_of(ids);
    }
    ASSERT_EQ(hash_of(lines), one["hashes"][begin / kBlock].get<uint32_t>())
        << name << " texts from " << begin;
  }
}

TEST(Pipelines, albert_s_spiece_model_equals_sentencepiece_under_its_normalisation) {
  const Json one = read_json("sentencepiece_golden.json")["models"]["spiece.model"];
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  const std::string bytes = read_file(data_file("spiece.model"));
  write_file(folder / "spiece.model", bytes);
  const auto error = [&] { return error_of([&] { (void)Tokenizer::load(folder); }); };
  EXPECT_NE(error().find("no config.json calls ALBERT's"), std::string::npos) << error();
  write_file(folder / "config.json", R"({"model_type": "xlnet"})");
  EXPECT_NE(error().find("'XlnetTokenizer'"), std::string::npos) << error();
  write_file(folder / "config.json", R"({"model_type": "albert"})");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const std::filesystem::path saved = folder / "saved";
  tokenizer.save(saved);
  const Tokenizer again = Tokenizer::load(saved);
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  expect_sentencepiece_ids(tokenizer, again, one, "spiece.model");
  for (const Json& row : one["numbers"]) {
    Ids ids;
    tokenizer.encode(row[0].get<std::string>(), ids);
    EXPECT_EQ(ids, row[1].get<Ids>()) << row[0];
  }
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.encode("[MASK]", "", 64).ids, (Ids{2, 4, 3, 3}));
  EXPECT_EQ(tokenizer.encode("", "a", 64).type_ids, (Ids{0, 0, 1, 1}));

  const auto configured = [&](const char* config) {
    write_file(folder / "tokenizer_config.json", config);
    return error();
  };
  EXPECT_EQ(configured(R"({"tokenizer_class": "AlbertTokenizerFast", "remove_space": true})"),
            "no error");
  EXPECT_NE(configured(R"({"remove_space": false})").find("remove_space"), std::string::npos);
  EXPECT_NE(configured(R"({"unk_token": "[MASK]"})").find("unknown piece is '<unk>'"),
            std::string::npos);
  EXPECT_NE(configured(R"({"tokenizer_class": "XLNetTokenizer"})").find("'XLNetTokenizer'"),
            std::string::npos);
  EXPECT_EQ(configured(R"({"do_lower_case": false, "keep_accents": true})"), "no error");
  const auto first_token = [&](const char* text) {
    const Tokenizer kept = Tokenizer::load(folder);
    return std::string(kept.token(kept.encode(text, std::nullopt, 8).ids[1]));
  };
  EXPECT_EQ(first_token("DD"), "\u2581");  // no piece begins with a large letter behind the sign
  std::filesystem::remove(folder / "tokenizer_config.json");
  EXPECT_EQ(first_token("D"), "\u2581d");

  // One more piece, of the user's own: {text "<ent>", type 4}. What follows it begins a word.
  write_file(folder / "spiece.model", bytes + "\x0a\x09\x0a\x05<ent>\x18\x04");
  const Tokenizer wider = Tokenizer::load(folder);
  Ids wanted = {2};
  wider.encode("d", wanted);
  wanted.push_back(static_cast<int32_t>(tokenizer.vocab_size()));
  wider.encode("d", wanted);
  wanted.push_back(3);
  EXPECT_EQ(wider.encode("d<ent>d", std::nullopt, 64).ids, wanted);
  for (size_t size = 0; size < bytes.size(); size += 97) {
    write_file(folder / "spiece.model", bytes.substr(0, size));
    EXPECT_FALSE(error().starts_with("internal")) << size;
  }
}

TEST(Pipelines, sentencepiece_models_equal_sentencepiece) {
  const Json golden_models = read_json("sentencepiece_golden.json");
  const TemporaryFolder folder;
  for (const auto& [name, one] : golden_models["models"].items()) {
    if (name == "spiece.model") continue;  // ALBERT's, above
    const Tokenizer tokenizer = Tokenizer::load(data_file(name));
    const auto saved = folder.path() / name;
    const auto file = saved / std::filesystem::path(name).filename();
    const TextLimits limits{.max_length = 64, .overlong = "window", .stride = 8};
    tokenizer.save(saved, limits);
    const Tokenizer again = Tokenizer::load(saved);
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(Tokenizer::saved_limits(saved), limits);
    expect_sentencepiece_ids(tokenizer, again, one, name);
    EXPECT_EQ(tokenizer.mask_id(), tokenizer.vocab_size() - 1) << name;
    const std::string bytes = read_file(data_file(name));
    for (size_t size = 0; size < bytes.size(); size += 97) {
      write_file(file, bytes.substr(0, size));
      EXPECT_FALSE(error_of([&] { (void)Tokenizer::load(file); }).starts_with("internal")) << size;
    }
  }
  const Tokenizer deberta = Tokenizer::load(data_file("spm.model"));
  const Encoding pair = deberta.encode("a", "a", 64);
  EXPECT_EQ(pair.ids.front(), 1);
  EXPECT_EQ(pair.ids.back(), 2);
  EXPECT_EQ(pair.type_ids.back(), 1);
  const Encoding xlmr = Tokenizer::load(data_file("sentencepiece.bpe.model")).encode("a", "a", 64);
  EXPECT_EQ(std::count(xlmr.ids.begin(), xlmr.ids.end(), 2), 3);
  EXPECT_EQ(std::count(xlmr.type_ids.begin(), xlmr.type_ids.end(), 0), std::ssize(xlmr.ids));
}

TEST(Pipelines, words_with_the_tokens_of_the_template_around_them) {
  const TemporaryFolder folder;
  const Json& one = golden().pipelines["cases"]["roberta_words"];
  write_file(folder.path() / "tokenizer.json", one["file"].dump());
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  Ids parts = {tokenizer.encode("", std::nullopt, 8).ids.front()};
  const std::vector<std::string> words = {"hello", "", "x1"};
  std::vector<int32_t> places;
  for (const std::string& word : words) {
    const size_t begin = parts.size();
    tokenizer.encode(word, parts);
    places.push_back(parts.size() > begin ? static_cast<int32_t>(begin) : -1);
  }
  parts.push_back(tokenizer.encode("", std::nullopt, 8).ids.back());
  Encoding encoding;
  EncodeScratch scratch;
  std::vector<int32_t> first;
  tokenizer.encode_words(words, 64, encoding, first, scratch);
  EXPECT_EQ(encoding.ids, parts);
  EXPECT_EQ(first, places);
  EXPECT_EQ(first[1], -1);
}

TEST(Pipelines, a_scratch_serves_several_tokenizers) {
  const TemporaryFolder folder;
  EncodeScratch scratch;
  Encoding encoding;
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"gpt2", "llama3", "xlmr"}) {
      write_file(folder.path() / "tokenizer.json",
                 golden().pipelines["cases"][name]["file"].dump());
      const Tokenizer tokenizer = Tokenizer::load(folder.path());
      tokenizer.encode("hello world hello", std::nullopt, 64, encoding, scratch);
      EXPECT_EQ(encoding.ids, tokenizer.encode("hello world hello", std::nullopt, 64).ids) << name;
    }
  }
}

TEST(Pipelines, a_long_word_takes_time_in_proportion_and_little_memory) {
  const TemporaryFolder folder;
  const std::string text(size_t{1} << 20, 'a');
  for (const char* name : {"gpt2", "llama_unknown", "metaspace_never", "prefixed"}) {
    write_file(folder.path() / "tokenizer.json", golden().pipelines["cases"][name]["file"].dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    EncodeScratch scratch;
    std::vector<int32_t> ids;
    const int64_t before = live_heap_bytes();
    tokenizer.encode(text, ids, scratch);
    const int64_t held = live_heap_bytes() - before;
    EXPECT_GT(ids.size(), text.size() / 64) << name;
    EXPECT_LT(held,
              static_cast<int64_t>(text.size()) * (8 + tokenizer.bytes_per_word_byte()) + (1 << 20))
        << name;
  }
}

TEST(Pipelines, bytes_are_what_the_heap_holds) {
  const TemporaryFolder folder;
  for (const auto& [name, one] : golden().pipelines["cases"].items()) {
    write_file(folder.path() / "tokenizer.json", one["file"].dump());
    const int64_t before = live_heap_bytes();
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    const int64_t held = live_heap_bytes() - before;
    EXPECT_NEAR(static_cast<double>(tokenizer.approximate_bytes()), static_cast<double>(held),
                12'288.0)
        << name;
  }
}

// XLNet's and LLaMA's names for sentencepiece models whose normalization is another.
TEST(Pipelines, a_tokenizer_that_is_not_supported_is_no_reason_to_learn_another) {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  for (const char* name : {"spiece.model", "tokenizer.model"}) {
    write_file(folder / name, read_file(data_file("spm.model")));
    EXPECT_TRUE(Tokenizer::is_in(folder));
    const std::string error = error_of([&] { (void)Tokenizer::load(folder); });
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find("is not supported"), std::string::npos) << error;
    std::filesystem::remove(folder / name);
  }
}

}  // namespace
}  // namespace snug::text
