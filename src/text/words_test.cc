// SPDX-License-Identifier: Apache-2.0
// Lists of words are cut and aligned as transformers does it: tools/golden/words.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "snug/error.h"
#include "text/tokenizer.h"

namespace snug::text {
namespace {

TEST(Words, ids_and_first_tokens_are_those_of_transformers) {
  std::ifstream file(SNUG_SOURCE_DIR "/tests/golden/words.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto tokenizer =
      Tokenizer::from_tokens(golden.at("vocabulary").get<std::vector<std::string>>(), {});
  Encoding encoding;
  EncodeScratch scratch;
  std::vector<int32_t> first_tokens;
  ASSERT_FALSE(golden.at("cases").empty());
  for (const nlohmann::json& each : golden.at("cases")) {
    const auto words = each.at("words").get<std::vector<std::string>>();
    tokenizer.encode_words(words, each.at("max_length").get<int64_t>(), encoding, first_tokens,
                           scratch);
    EXPECT_EQ(encoding.ids, each.at("ids").get<std::vector<int32_t>>()) << each;
    EXPECT_EQ(first_tokens, each.at("first_tokens").get<std::vector<int32_t>>()) << each;
    EXPECT_EQ(encoding.type_ids.size(), encoding.ids.size());
    EXPECT_EQ(encoding.truncated,
              encoding.untruncated_length > static_cast<int64_t>(encoding.ids.size()));
  }
  EXPECT_THROW(tokenizer.encode_words({}, 1, encoding, first_tokens, scratch), Error);
}

}  // namespace
}  // namespace snug::text
