// SPDX-License-Identifier: Apache-2.0
// Windows of texts against the `tokenizers` package's overflowing pieces (tools/golden/windows.py),
// words in windows, and texts that lose their middle.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "snug/error.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

nlohmann::json golden() {
  return nlohmann::json::parse(
      io::read_all(SNUG_SOURCE_DIR "/tests/golden/windows.json", int64_t{1} << 20));
}

// The first `count` words of the vocabulary: "a", "b", ...
std::vector<std::string> first_words(const nlohmann::json& tokens, int64_t count) {
  std::vector<std::string> words;
  for (int64_t i = 0; i < count; ++i) words.push_back(tokens.at(static_cast<size_t>(5 + i)));
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

TEST(Windows, are_those_of_tokenizers_and_every_word_belongs_to_one) {
  const nlohmann::json all = golden();
  const Tokenizer tokenizer = Tokenizer::from_tokens(all.at("tokens"), {});
  EncodeScratch scratch;
  for (const nlohmann::json& each : all.at("cases")) {
    SCOPED_TRACE(each.dump());
    const std::vector<std::string> words = first_words(all.at("tokens"), each.at("words"));
    const int64_t length = each.at("max_length");
    const int64_t stride = each.at("stride");
    const auto wanted = each.at("windows").get<std::vector<std::vector<int32_t>>>();
    const int64_t count = tokenizer.begin_windows(joined(words), length, stride, scratch);
    ASSERT_EQ(count, static_cast<int64_t>(wanted.size()));
    Encoding encoding;
    for (int64_t i = 0; i < count; ++i) {
      tokenizer.window(i, length, stride, scratch, encoding, nullptr);
      EXPECT_EQ(encoding.ids, wanted[static_cast<size_t>(i)]);
    }
    ASSERT_EQ(tokenizer.begin_windows(std::span(words), length, stride, scratch), count);
    std::vector<int> times(words.size(), 0);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokenizer.window(i, length, stride, scratch, encoding, &tokens);
      ASSERT_EQ(tokens.size(), words.size());
      for (size_t word = 0; word < words.size(); ++word) {
        if (tokens[word] < 0) continue;
        ++times[word];
        EXPECT_EQ(encoding.ids.at(static_cast<size_t>(tokens[word])),
                  static_cast<int32_t>(5 + word));
      }
    }
    EXPECT_EQ(times, std::vector<int>(words.size(), 1));
  }
}

TEST(Windows, a_word_belongs_where_it_has_the_most_around_it) {
  const nlohmann::json all = golden();
  const Tokenizer tokenizer = Tokenizer::from_tokens(all.at("tokens"), {});
  EncodeScratch scratch;
  Encoding encoding;
  std::vector<int32_t> tokens;
  // Windows of six tokens of a text, of which four are shared: words 0 - 5, 2 - 7.
  const std::vector<std::string> words = first_words(all.at("tokens"), 8);
  ASSERT_EQ(tokenizer.begin_windows(std::span(words), 8, 4, scratch), 2);
  tokenizer.window(0, 8, 4, scratch, encoding, &tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 2, 3, 4, -1, -1, -1, -1}));
  tokenizer.window(1, 8, 4, scratch, encoding, &tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{-1, -1, -1, -1, 3, 4, 5, 6}));
}

TEST(Windows, a_stride_that_leaves_nothing_new_is_refused) {
  const Tokenizer tokenizer = Tokenizer::from_tokens(golden().at("tokens"), {});
  EncodeScratch scratch;
  try {
    (void)tokenizer.begin_windows("a b c", 6, 4, scratch);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[stride] 4 tokens are all"), std::string::npos)
        << error.what();
  }
}

TEST(Windows, a_length_with_room_for_no_token_is_refused) {
  const Tokenizer tokenizer = Tokenizer::from_tokens(golden().at("tokens"), {});
  EncodeScratch scratch;
  const std::string error =
      test::error_of([&] { (void)tokenizer.begin_windows("a b c", 2, 0, scratch); });
  EXPECT_NE(error.find("[max_seq_length]"), std::string::npos) << error;
  EXPECT_NE(error.find("at least 3"), std::string::npos) << error;
}

TEST(Cut, in_the_middle_keeps_the_first_and_the_last_half) {
  const nlohmann::json all = golden();
  const Tokenizer tokenizer = Tokenizer::from_tokens(all.at("tokens"), {});
  EncodeScratch scratch;
  Encoding encoding;
  const std::vector<std::string> words = first_words(all.at("tokens"), 9);
  tokenizer.encode(joined(words), std::nullopt, 7, encoding, scratch, Truncation::middle);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 5, 6, 7, 12, 13, 3}));
  EXPECT_TRUE(encoding.truncated);
  // Each text of a pair is as long as truncation leaves it.
  tokenizer.encode(joined(words), "a b c", 10, encoding, scratch, Truncation::middle);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 5, 6, 12, 13, 3, 5, 6, 7, 3}));
  std::vector<int32_t> tokens;
  tokenizer.encode_words(words, 7, encoding, tokens, scratch, Truncation::middle);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 5, 6, 7, 12, 13, 3}));
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 2, 3, -1, -1, -1, -1, 4, 5}));
  tokenizer.encode("a b", std::nullopt, 7, encoding, scratch, Truncation::middle);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 5, 6, 3}));
  EXPECT_FALSE(encoding.truncated);
}

// What tokenizers 0.22 gives with enable_truncation(direction="left").
TEST(Cut, at_the_beginning_keeps_the_last_tokens) {
  const nlohmann::json all = golden();
  const Tokenizer tokenizer = Tokenizer::from_tokens(all.at("tokens"), {});
  EncodeScratch scratch;
  Encoding encoding;
  const std::vector<std::string> words = first_words(all.at("tokens"), 9);
  tokenizer.encode(joined(words), std::nullopt, 7, encoding, scratch, Truncation::begin);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 9, 10, 11, 12, 13, 3}));
  EXPECT_TRUE(encoding.truncated);
  tokenizer.encode(joined(words), "a b c", 10, encoding, scratch, Truncation::begin);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 10, 11, 12, 13, 3, 5, 6, 7, 3}));
  tokenizer.encode(joined(words), "a b c", 8, encoding, scratch, Truncation::begin);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 11, 12, 13, 3, 6, 7, 3}));
  std::vector<int32_t> tokens;
  tokenizer.encode_words(words, 8, encoding, tokens, scratch, Truncation::begin);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 8, 9, 10, 11, 12, 13, 3}));
  EXPECT_EQ(tokens, (std::vector<int32_t>{-1, -1, -1, 1, 2, 3, 4, 5, 6}));
  tokenizer.encode("a b", std::nullopt, 7, encoding, scratch, Truncation::begin);
  EXPECT_EQ(encoding.ids, (std::vector<int32_t>{2, 5, 6, 3}));
  EXPECT_FALSE(encoding.truncated);
}

}  // namespace
}  // namespace snug::text
