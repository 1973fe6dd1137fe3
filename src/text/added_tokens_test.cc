// SPDX-License-Identifier: Apache-2.0
// Searching for added tokens: the same as trying every pattern at every place, and linear.
#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

// Pieces of text, and ids of tokens with no text.
using Pieces = std::vector<std::pair<std::string, int32_t>>;

Pieces split(const AddedTokenMatcher& matcher, const std::string& text) {
  Pieces pieces;
  matcher.split(
      text, [&](std::string_view piece) { pieces.emplace_back(piece, -1); },
      [&](int32_t id) { pieces.emplace_back("", id); });
  return pieces;
}

bool is_word(char c) { return c != ' '; }

// One byte a character. At every place the longest pattern is taken; one that must stand alone and
// does not is passed over as a whole.
Pieces plain_split(const std::vector<AddedPattern>& patterns, const std::string& text) {
  Pieces pieces;
  size_t done = 0;
  const auto end_piece = [&](size_t end) {
    if (done < end) pieces.emplace_back(text.substr(done, end - done), -1);
  };
  for (size_t at = 0; at < text.size();) {
    const AddedPattern* longest = nullptr;
    for (const AddedPattern& pattern : patterns) {
      const bool is_here = text.compare(at, pattern.text.size(), pattern.text) == 0;
      if (is_here && (longest == nullptr || pattern.text.size() > longest->text.size()))
        longest = &pattern;
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + longest->text.size();
    at = end;
    const bool stands_alone =
        (begin == 0 || !is_word(text[begin - 1])) && (end == text.size() || !is_word(text[end]));
    if (longest->single_word && !stands_alone) continue;
    while (longest->lstrip && begin > done && text[begin - 1] == ' ') --begin;
    while (longest->rstrip && end < text.size() && text[end] == ' ') ++end;
    end_piece(begin);
    pieces.emplace_back("", longest->id);
    done = end;
  }
  end_piece(text.size());
  return pieces;
}

TEST(AddedTokens, are_found_as_by_trying_every_pattern_everywhere) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + below(most); n > 0; --n) text += "aab "[below(4)];
    return text;
  };
  size_t tokens = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<AddedPattern> patterns;
    for (size_t n = below(9); n > 0; --n) {
      patterns.push_back({word(round % 3 == 0 ? 2 : 6), static_cast<int32_t>(patterns.size()),
                          below(3) == 0, below(3) == 0, below(3) == 0});
    }
    const AddedTokenMatcher matcher(patterns);
    for (const size_t length : {size_t{4}, size_t{40}}) {
      const std::string text = word(length);
      const Pieces found = split(matcher, text);
      ASSERT_EQ(found, plain_split(patterns, text)) << "'" << text << "' in round " << round;
      for (const auto& [piece, id] : found) tokens += id >= 0;
    }
  }
  EXPECT_GT(tokens, 10000u);
  // Texts longer than what is searched at once, with tokens across the borders.
  for (int round = 0; round < 20; ++round) {
    std::vector<AddedPattern> patterns;
    for (const size_t bytes : {size_t{1}, size_t{3}, size_t{700}, size_t{5000}}) {
      patterns.push_back({std::string(bytes, 'a') + word(2), static_cast<int32_t>(bytes), false,
                          below(2) == 0, below(2) == 0});
    }
    std::string text;
    while (text.size() < 20000) text += std::string(below(6000), 'a') + word(9);
    ASSERT_EQ(split(AddedTokenMatcher(patterns), text), plain_split(patterns, text)) << round;
  }
}

TEST(AddedTokens, of_every_byte_are_found) {
  std::vector<AddedPattern> patterns;
  std::string text;
  for (int byte = 255; byte >= 1; --byte) {
    patterns.push_back({std::string(1, static_cast<char>(byte)) + "x", byte});
    text += patterns.back().text;
  }
  Pieces wanted;
  for (int byte = 255; byte >= 1; --byte) wanted.emplace_back("", byte);
  EXPECT_EQ(split(AddedTokenMatcher(patterns), text), wanted);
}

// Trying every token of the same first byte would take 10^11 comparisons here, and following each
// as far as it goes 10^10.
TEST(AddedTokens, take_time_in_proportion_to_the_text) {
  std::vector<AddedPattern> patterns;
  for (int i = 0; i < 20000; ++i) patterns.push_back({"a" + std::to_string(100000 + i), i});
  patterns.push_back({std::string(4000, 'a') + "b", 20000});
  patterns.push_back({"aac", 20001});
  const AddedTokenMatcher matcher(patterns);
  const std::string text = std::string(size_t{4} << 20, 'a') + "c";
  const Pieces found = split(matcher, text);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first.size(), text.size() - 3);
  EXPECT_EQ(found[1].second, 20001);
  EXPECT_LT(matcher.heap_bytes(), int64_t{4} << 20);
}

TEST(AddedTokens, have_limits) {
  const test::TemporaryFolder folder;
  const auto error_with = [&](const std::string& added) {
    test::write_file(folder.path() / "tokenizer_config.json",
                     R"({"added_tokens_decoder": {)" + added + "}}");
    test::write_file(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    return test::error_of([&] { (void)Tokenizer::load(folder.path()); });
  };
  const auto token = [](int id, char last) {
    return "\"" + std::to_string(id) + R"(": {"content": ")" + std::to_string(id) +
           std::string(3990, 'x') + last + "\"}";
  };
  EXPECT_EQ(error_with(token(5, 'a')), "no error");
  const std::string too_long = R"("5": {"content": ")" + std::string(4001, 'x') + "\"}";
  EXPECT_NE(
      error_with(too_long).find("the added token of id 5 has 4001 bytes; a token has at most 4000"),
      std::string::npos);
  std::string many = token(5, 'a');
  for (int id = 6; id < 305; ++id) many += ", " + token(id, 'a');
  const std::string error = error_with(many);
  EXPECT_NE(error.find("added tokens have"), std::string::npos) << error;
  EXPECT_NE(error.find("at most 1048576 are read"), std::string::npos) << error;
}

}  // namespace
}  // namespace snug::text
