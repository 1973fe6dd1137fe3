// SPDX-License-Identifier: Apache-2.0
#include "snug/lengths.h"

#include <gtest/gtest.h>

#include "snug/error.h"

namespace snug {
namespace {

TEST(Lengths, one_needs_no_name) {
  const Lengths one = 16;
  EXPECT_EQ(one.of(), 16);
  EXPECT_EQ(one.of("source"), 0);
  EXPECT_FALSE(one.has_names());
  EXPECT_EQ(to_string(one), "16");
  EXPECT_TRUE(one.holds(16));
  EXPECT_TRUE(one.holds({}));
  EXPECT_FALSE(one.holds(17));
  EXPECT_TRUE(Lengths(0).empty());
  EXPECT_EQ(to_string(Lengths()), "none");
}

TEST(Lengths, several_are_compared_name_by_name) {
  const Lengths two = {{"source", 16}, {"target", 8}};
  EXPECT_TRUE(two.has_names());
  EXPECT_EQ(to_string(two), "source 16, target 8");
  EXPECT_TRUE(two.holds({{"source", 16}}));
  EXPECT_FALSE(two.holds({{"source", 8}, {"target", 9}}));
  EXPECT_FALSE(two.holds({{"other", 1}}));
  EXPECT_FALSE(two.holds(1));
  EXPECT_EQ(Lengths(two).set("source", 4), Lengths({{"source", 4}, {"target", 8}}));
}

TEST(Lengths, every_combination_ends_with_the_longest) {
  const std::vector<Lengths> programs =
      every_combination({{"target", {8, 16}}, {"source", {4, 32}}});
  ASSERT_EQ(programs.size(), 4u);
  EXPECT_EQ(to_string(programs[0]), "source 4, target 8");
  EXPECT_EQ(to_string(programs[1]), "source 4, target 16");
  EXPECT_EQ(to_string(programs[3]), "source 32, target 16");
  EXPECT_THROW((void)every_combination({{"source", {}}}), Error);
}

}  // namespace
}  // namespace snug
