// SPDX-License-Identifier: Apache-2.0
#include "data/label_number.h"

#include <gtest/gtest.h>

namespace snug::data {
namespace {

TEST(Label_number, is_the_same_in_every_spelling) {
  for (const char* text : {"2", "2.0", "02", "+2", " 2 ", "2e0", "2.", "\t2"})
    EXPECT_EQ(spelled_number(text), 2.0) << text;
  EXPECT_EQ(spelled_number("-1"), -1.0);
  EXPECT_EQ(spelled_number("+1.5"), 1.5);
  for (const char* text :
       {"", " ", "+", "+-2", "++2", "2x", "1 star", "nan", "inf", "1e400", "0x2", "1,5"})
    EXPECT_EQ(spelled_number(text), std::nullopt) << text;
}

TEST(Label_number, those_within_a_text_have_no_sign) {
  EXPECT_EQ(numbers_within("1 star"), std::vector<double>{1});
  EXPECT_EQ(numbers_within("LABEL_07"), std::vector<double>{7});
  EXPECT_EQ(numbers_within("v2.0"), std::vector<double>{2});
  EXPECT_EQ(numbers_within("no. 7."), std::vector<double>{7});
  EXPECT_EQ(numbers_within("2-3 days"), (std::vector<double>{2, 3}));
  EXPECT_TRUE(numbers_within("star").empty());
  EXPECT_EQ(numbers_within("1 2 3 4 5 6 7 8 9 10").size(), 8U);
}

TEST(Label_number, what_tables_write_for_nothing) {
  for (const char* text : {"NA", "n/a", "NaN", "null", "None", "", " ", "-Inf", "Infinity"})
    EXPECT_TRUE(says_missing(text)) << text;
  for (const char* text : {"no", "nano", "0", "nothing"}) EXPECT_FALSE(says_missing(text)) << text;
}

}  // namespace
}  // namespace snug::data
