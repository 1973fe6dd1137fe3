// SPDX-License-Identifier: Apache-2.0
#include "data/invisible.h"

#include <gtest/gtest.h>

namespace snug::data {
namespace {

TEST(Invisible, texts_of_blanks_and_characters_without_a_glyph) {
  for (const char* text : {"", " ", "\u200b", "\ufeff", "\u00a0\u2003", "\u00ad", "\u3000\t",
                           "\u2800", "\u3164", "\U000E0041"})
    EXPECT_TRUE(is_invisible(text)) << text;
  for (const char* text : {"a", "\u200ba", ".", "\u00e9", "\u4e2d", "\U0001F600", "\u0301"})
    EXPECT_FALSE(is_invisible(text)) << text;
}

}  // namespace
}  // namespace snug::data
