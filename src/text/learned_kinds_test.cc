// SPDX-License-Identifier: Apache-2.0
// Tokenizers of every kind over a vocabulary that was learned: what they make of the text, and that
// they are the same when saved and read again.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/philox.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

using Rows = std::vector<std::string>;

const Rows kTexts = {"The cats sat on the mat; the cat's hat!  It isn't 2024 yet.",
                     "  Élan vital,\tété\n\u4e2d\u6587 and [MASK] \U0001F600 e\u0301",
                     "cats cats hats hats thehats",
                     "",
                     " ",
                     "\uff3bCLS\uff3d \ufb01ne"};

Rows repeated(int times) {
  Rows rows;
  for (int i = 0; i < times; ++i) rows.insert(rows.end(), kTexts.begin(), kTexts.end());
  return rows;
}

LearnedVocabulary learn(TokenizerKind kind, const Rows& rows, int64_t size) {
  VocabularyLearner learner({.kind = kind, .vocab_size = size});
  for (const std::string& row : rows) learner.add(row);
  return learner.learn();
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  std::vector<std::string> tokens;
  for (int32_t id : ids) tokens.emplace_back(tokenizer.token(id));
  return tokens;
}

TEST(LearnedKinds, are_saved_and_read_as_the_same) {
  const test::TemporaryFolder folder;
  for (const TokenizerKind kind :
       {TokenizerKind::wordpiece, TokenizerKind::bpe, TokenizerKind::unigram}) {
    const LearnedVocabulary vocabulary = learn(kind, repeated(20), 400);
    EXPECT_LE(vocabulary.tokens.size(), 400u);
    EXPECT_EQ(std::set<std::string>(vocabulary.tokens.begin(), vocabulary.tokens.end()).size(),
              vocabulary.tokens.size());
    EXPECT_EQ(learn(kind, repeated(20), 400).tokens, vocabulary.tokens);
    const Tokenizer tokenizer = Tokenizer::learned(vocabulary);
    tokenizer.save(folder.path());
    const Tokenizer again = Tokenizer::load(folder.path());
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(again.pad_id(), 0);
    EXPECT_EQ(again.mask_id(), 4);
    for (const std::string& text : kTexts) {
      const Encoding pair = tokenizer.encode(text, "hats", 64);
      EXPECT_EQ(pair.ids, again.encode(text, "hats", 64).ids);
      EXPECT_EQ(pair.ids.front(), 2);
      EXPECT_EQ(pair.ids.back(), 3);
      EXPECT_EQ(pair.type_ids.back(), 1);
      EXPECT_EQ(std::count(pair.ids.begin(), pair.ids.end(), 1), 0) << text;
    }
  }
}

TEST(LearnedKinds, bpe_says_any_bytes_and_joins_what_is_frequent) {
  const Tokenizer tokenizer = Tokenizer::learned(learn(TokenizerKind::bpe, repeated(20), 400));
  EXPECT_EQ(tokens_of(tokenizer, "cats the hats"), (Rows{"\u0120cats", "\u0120the", "\u0120hats"}));
  EXPECT_EQ(tokens_of(tokenizer, "\u05ff"), (Rows{"\u0120", "\u00d7", "\u00bf"}));
  EXPECT_NE(test::error_of([] {
              (void)learn(TokenizerKind::bpe, {}, 260);
            }).find("260 is not between 261 (the special tokens and the bytes) and"),
            std::string::npos);
}

TEST(LearnedKinds, every_merge_of_bpe_makes_its_own_token) {
  PhiloxStream random(3);
  Rows rows;
  for (int i = 0; i < 3000; ++i) {
    std::string word;
    for (uint64_t n = 2 + random.below(9); n > 0; --n)
      word += static_cast<char>('a' + random.below(3));
    rows.push_back(word);
  }
  const LearnedVocabulary vocabulary = learn(TokenizerKind::bpe, rows, 900);
  ASSERT_GT(vocabulary.merges.size(), 600u);
  const Tokenizer tokenizer = Tokenizer::learned(vocabulary);
  std::set<std::string> made;
  for (const std::string& row : rows) {
    for (const std::string& token : tokens_of(tokenizer, row)) made.insert(token);
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const BpeMerge& merge = vocabulary.merges[i];
    const auto text = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)]; };
    EXPECT_EQ(merge.id, static_cast<int32_t>(261 + i));
    EXPECT_EQ(text(merge.left) + text(merge.right), text(merge.id));
  }
  EXPECT_GT(made.size(), 300u);
}

TEST(LearnedKinds, unigram_keeps_what_is_frequent_and_every_character) {
  Rows rows = repeated(20);
  rows.emplace_back("\u0416");  // in no word for training but its own
  const LearnedVocabulary vocabulary = learn(TokenizerKind::unigram, rows, 300);
  const Tokenizer tokenizer = Tokenizer::learned(vocabulary);
  EXPECT_EQ(tokens_of(tokenizer, "  cats   hats ")[0].substr(0, 6), "\u2581cat");
  EXPECT_LE(tokens_of(tokenizer, "cats hats").size(), 4u);
  EXPECT_EQ(tokens_of(tokenizer, "  cats   hats "), tokens_of(tokenizer, "cats hats"));
  std::vector<int32_t> ids;
  tokenizer.encode("\u0416sat", ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.unk_id()), 0);
  EXPECT_TRUE(
      std::is_sorted(vocabulary.scores.begin() + 5, vocabulary.scores.end(), std::greater<>()));
}

TEST(LearnedKinds, few_and_short_rows_are_learned_from) {
  PhiloxStream random(11);
  for (int i = 0; i < 60; ++i) {
    Rows rows;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      std::string& row = rows.emplace_back("x");
      const uint64_t letters = 1 + random.below(3);
      for (uint64_t length = random.below(30); length > 0; --length)
        row += random.below(6) == 0 ? ' ' : static_cast<char>('a' + random.below(letters));
    }
    for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::unigram}) {
      const Tokenizer tokenizer = Tokenizer::learned(learn(kind, rows, 261 + 5 * i));
      for (const std::string& row : rows) {
        std::vector<int32_t> ids;
        tokenizer.encode(row, ids);
        EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 0) << row;
      }
    }
  }
}

}  // namespace
}  // namespace snug::text
