// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/philox.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SNUG_TEST_MEASURES_MEMORY false
#else
#define SNUG_TEST_MEASURES_MEMORY true
#endif

namespace snug::text {
namespace {

using Rows = std::vector<std::string>;

/// The glosses of WordNet; empty where it is not installed.
Rows wordnet() {
  Rows rows;
  for (const char* part : {"noun", "verb", "adj", "adv"}) {
    std::ifstream in(std::string("/usr/share/wordnet/data.") + part);
    for (std::string line; std::getline(in, line);) {
      const size_t bar = line.find(" | ");
      if (bar != std::string::npos) rows.push_back(line.substr(bar + 3));
    }
  }
  return rows;
}

/// Rows of made-up words of 2 to 40 letters, nearly all of them different.
Rows noise(int count, uint64_t letters = 32) {
  PhiloxStream random(5);
  Rows rows;
  for (int i = 0; i < count; ++i) {
    std::string row;
    for (int word = 0; word < 12; ++word) {
      const uint64_t length = 2 + random.below(39);
      for (uint64_t c = 0; c < length; ++c)
        append_utf8(static_cast<char32_t>(0x430 + random.below(letters)), row);
      row += ' ';
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> learn(const Rows& rows, const VocabularyOptions& options) {
  VocabularyLearner learner(options);
  for (const std::string& row : rows) learner.add(row);
  return learner.learn().tokens;
}

constexpr TokenizerKind kKinds[] = {TokenizerKind::wordpiece, TokenizerKind::bpe,
                                    TokenizerKind::unigram};

int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

/// Growth of the peak resident set of a child process that learns: {peak, left after learn()}.
std::pair<int64_t, int64_t> measure(const Rows& rows, int64_t vocab_size, TokenizerKind kind) {
  int ends[2];
  if (pipe(ends) != 0) return {-1, -1};
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = status_bytes("VmRSS:");
    int64_t result[2] = {-1, -1};
    {
      const auto tokens = learn(rows, {.kind = kind, .vocab_size = vocab_size});
      if (tokens.size() > 100) result[0] = status_bytes("VmHWM:") - before;
    }
    result[1] = status_bytes("VmRSS:") - before;
    _exit(write(ends[1], result, sizeof result) == sizeof result ? 0 : 1);
  }
  int64_t result[2] = {-1, -1};
  if (read(ends[0], result, sizeof result) != sizeof result) result[0] = -1;
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return {result[0], result[1]};
}

TEST(Vocabulary, small_text_gives_its_words_and_every_character_in_both_forms) {
  Rows rows(20, "The cat sat. The cats sat, the hat! Élan \u4e2d\u6587");
  const auto tokens = learn(rows, {.vocab_size = 200});
  const Rows special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  EXPECT_TRUE(std::equal(special.begin(), special.end(), tokens.begin()));
  const std::set<std::string> set(tokens.begin(), tokens.end());
  EXPECT_EQ(set.size(), tokens.size());
  EXPECT_LE(tokens.size(), 200u);
  for (const char* token :
       {"the", "cat", "sat", "hat", "elan", ".", "!", "\u4e2d", "e", "##e", "h", "##h"}) {
    EXPECT_TRUE(set.contains(token)) << token;
  }
  for (const char* token : {"##.", "##\u4e2d", "The", "é"})
    EXPECT_FALSE(set.contains(token)) << token;

  const auto cased = learn(rows, {.vocab_size = 200, .lowercase = false});
  EXPECT_TRUE(std::count(cased.begin(), cased.end(), "The") == 1);
  EXPECT_TRUE(std::count(cased.begin(), cased.end(), "Élan") == 1);
}

TEST(Vocabulary, vocab_size_is_kept_and_the_text_has_no_unknown_word) {
  const Rows rows = noise(60);
  for (int64_t size : {120, 300, 2000}) {
    const auto tokens = learn(rows, {.vocab_size = size});
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), size);
    const auto tokenizer = Tokenizer::from_tokens(tokens, {});
    std::vector<int32_t> ids;
    for (const std::string& row : rows) tokenizer.encode(row, ids);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.unk_id()), 0);
  }
}

TEST(Vocabulary, rare_characters_give_way_to_frequent_ones) {
  std::string row;
  for (char32_t c = 0x4E00; c < 0x4E00 + 400; ++c) append_utf8(c, row);
  const auto tokens = learn({row, "ab ab ab", "\u4e00"}, {.vocab_size = 105});
  // 75 forms: a, ##a, b, ##b and the ideograph seen twice come first.
  EXPECT_TRUE(std::count(tokens.begin(), tokens.end(), "##b") == 1);
  EXPECT_TRUE(std::count(tokens.begin(), tokens.end(), "\u4e00") == 1);
  EXPECT_EQ(tokens.size(), 5u + 75u + 1u);  // and "ab"
}

TEST(Vocabulary, same_rows_and_seed_give_the_same_tokens_under_sampling) {
  const Rows rows = noise(400);
  const VocabularyOptions options{
      .vocab_size = 500, .seed = 3, .lowercase = true, .sample_bytes = 10'000};
  const auto tokens = learn(rows, options);
  EXPECT_EQ(learn(rows, options), tokens);
  VocabularyOptions other = options;
  other.seed = 4;
  EXPECT_NE(learn(rows, other), tokens);
}

TEST(Vocabulary, sampling_keeps_what_is_frequent_early_and_late) {
  VocabularyLearner learner(
      {.vocab_size = 60, .seed = 1, .lowercase = true, .sample_bytes = 4'000});
  for (int i = 0; i < 3000; ++i) learner.add("early early early");
  for (int i = 0; i < 3000; ++i) learner.add("late late late");
  const auto tokens = learner.learn().tokens;
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "early"), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "late"), 1);
}

TEST(Vocabulary, one_endless_row_is_read_in_parts) {
  std::string row(3 << 20, 'x');
  row += " fine words fine words";
  const auto tokens = learn({row}, {.vocab_size = 100});
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "fine"), 1);
}

TEST(Vocabulary, errors_name_the_cause) {
  EXPECT_NE(test::error_of([] {
              VocabularyLearner learner({.vocab_size = 15});
            }).find("bad_config [vocab_size] 15 is not between 16 and"),
            std::string::npos);
  EXPECT_NE(test::error_of([] {
              (void)learn({"", " \t", "\u0301"}, {});
            }).find("bad_data [vocabulary] the text has no characters"),
            std::string::npos);
  EXPECT_NE(test::error_of([] {
              (void)learn({"abc\xff"}, {});
            }).find("bad_data [text] invalid UTF-8 at byte 3 (0xff)"),
            std::string::npos);
}

TEST(Vocabulary, peak_memory_stays_below_the_stated_bound) {
  if (!SNUG_TEST_MEASURES_MEMORY) GTEST_SKIP() << "sanitizers change what memory is taken";
  // Few letters give Unigram many pieces to begin with.
  const auto words_of = [](uint64_t letters) {
    Rows words;
    for (const std::string& row : noise(4'000, letters))
      words.insert(words.end(), 2, row);  // no word is rare enough to be left out
    return words;
  };
  const Rows rows = wordnet();
  for (const TokenizerKind kind : kKinds) {
    const std::string name = "_of_kind_" + std::to_string(static_cast<int>(kind));
    const auto [hostile, hostile_left] =
        measure(words_of(kind == TokenizerKind::unigram ? 2 : 32), 2000, kind);
    EXPECT_GT(hostile, 1 << 20) << name;
    EXPECT_LT(hostile, kVocabularyLearnerBytes) << name;
    RecordProperty("noise_peak_bytes" + name, std::to_string(hostile));
    RecordProperty("noise_left_bytes" + name, std::to_string(hostile_left));
    if (rows.empty()) continue;
    for (int64_t size : {2000, 8192}) {
      if (kind != TokenizerKind::wordpiece && size == 2000) continue;  // they take as much
      const auto [peak, left] = measure(rows, size, kind);
      EXPECT_GT(peak, 1 << 20) << size << name;
      EXPECT_LT(peak, kVocabularyLearnerBytes) << size << name;
      RecordProperty("wordnet_peak_bytes_" + std::to_string(size) + name, std::to_string(peak));
      RecordProperty("wordnet_left_bytes_" + std::to_string(size) + name, std::to_string(left));
    }
  }
}

}  // namespace
}  // namespace snug::text
