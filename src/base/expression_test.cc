// SPDX-License-Identifier: Apache-2.0
// Against Python's re.fullmatch (tests/golden/expressions.txt, written by
// tools/golden/expressions.py).
#include "base/expression.h"

#include <gtest/gtest.h>

#include <fstream>

namespace snug {
namespace {

TEST(Expression, matches_what_python_matches) {
  std::ifstream file(SNUG_SOURCE_DIR "/tests/golden/expressions.txt");
  std::string line;
  int64_t count = 0;
  while (std::getline(file, line)) {
    const size_t text = line.find('\t') + 1;
    const size_t answer = line.find('\t', text) + 1;
    const std::string pattern = line.substr(0, text - 1);
    const std::string name = line.substr(text, answer - 1 - text);
    EXPECT_EQ(Expression(pattern).matches(name), line.at(answer) == '1') << line;
    ++count;
  }
  EXPECT_GT(count, 1000);
}

TEST(Expression, what_is_wrong_or_not_supported_is_said) {
  const std::pair<const char*, const char*> cases[] = {
      {"(a", "a '(' has no ')' (at character 3 of '(a')"},
      {"a)", "a ')' has no '('"},
      {"[a", "a '[' has no ']'"},
      {"{2}", "there is nothing to repeat"},
      {"*a", "there is nothing to repeat"},
      {"a**", "a repetition is repeated"},
      {"a*+", "possessive repetition"},
      {"^*", "a place is no text that could be repeated"},
      {"a{3,2}", "the least number of times is above the most"},
      {"a{1001}", "more than 1000 times"},
      {"(?=a)", "lookaround, flags and references"},
      {"(?i)a", "lookaround, flags and references"},
      {R"((a)\1)", "references to groups"},
      {R"(\q)", R"('\q' is not supported)"},
      {"a\\", "a backslash has nothing behind it"},
      {"[b-a]", "a range has no two ends in their order"},
      {"((a{1000}){1000}){1000}", "the expression is too large"},
      {"(((){1000}){1000}){1000}", "the expression is too large"}};
  for (const auto& [pattern, what] : cases) {
    try {
      (void)Expression(pattern);
      ADD_FAILURE() << pattern;
    } catch (const BadExpression& bad) {
      EXPECT_NE(std::string(bad.what()).find(what), std::string::npos) << bad.what();
    }
  }
  EXPECT_THROW((void)Expression(std::string(200, '(') + "a" + std::string(200, ')')),
               BadExpression);
}

// What others try one after the other is tried at once.
TEST(Expression, takes_no_time_without_end) {
  EXPECT_FALSE(Expression("(a|a)*(a|a)*(a|a)*b").matches(std::string(2000, 'a')));
}

}  // namespace
}  // namespace snug
