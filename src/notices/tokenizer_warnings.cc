// SPDX-License-Identifier: Apache-2.0
#include "notices/tokenizer_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/listed.h"
#include "base/printable.h"
#include "notices/say.h"

namespace snug::notices {

using text::EncodeScratch;
using text::Tokenizer;

namespace {

constexpr double kManyCapitals = 0.01;  // a few are somebody's own
constexpr double kManySpaced = 0.05;

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                            EncodeScratch& scratch) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids, scratch);
  return ids;
}

double share_of(size_t part, const Tokenizer& tokenizer) {
  return static_cast<double>(part) /
         static_cast<double>(std::max<int64_t>(tokenizer.vocab_size(), 1));
}

// Tokens with capitals that their own text does not become.
std::optional<Warning> lost_capitals(const Tokenizer& tokenizer, EncodeScratch& scratch) {
  if (!tokenizer.makes_lower_case()) return {};
  std::vector<std::string> lost;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view token = tokenizer.token(id);
    if (std::none_of(token.begin(), token.end(), ascii::is_upper)) continue;
    const std::vector<int32_t> ids = ids_of(tokenizer, token, scratch);
    if (ids.size() != 1 || ids.front() != id) lost.emplace_back(token);
  }
  const double share = share_of(lost.size(), tokenizer);
  if (share < kManyCapitals) return {};
  std::vector<std::string> names;
  for (const std::string& token : lost) names.push_back("'" + printable_name(token) + "'");
  return Warning{
      .code = "cased_vocabulary",
      .text = fmt::format(
          "{} of the {} tokens of the vocabulary ({}) have capitals, and texts are made "
          "lower-case first: they are never used (a vocabulary with capitals wants "
          "do_lower_case: false in tokenizer_config.json): {}",
          lost.size(), tokenizer.vocab_size(), share_text(share), joined(names, kListed)),
      .count = static_cast<int64_t>(lost.size()),
      .share = share};
}

// What stands for the space before a word, where only a text with a space gets it.
std::string space_of(const Tokenizer& tokenizer, EncodeScratch& scratch) {
  const std::vector<int32_t> spaced = ids_of(tokenizer, " a", scratch);
  if (spaced.empty() || spaced == ids_of(tokenizer, "a", scratch)) return {};
  const std::string_view token = tokenizer.token(spaced.front());
  if (spaced.front() == tokenizer.unk_id() || token.starts_with('a')) return {};
  return std::string(token.substr(0, token.find('a')));
}

std::optional<Warning> words_without_space(const Tokenizer& tokenizer, EncodeScratch& scratch) {
  const std::string space = space_of(tokenizer, scratch);
  if (space.empty()) return {};
  size_t spaced = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view token = tokenizer.token(id);
    spaced += token.size() > space.size() && token.starts_with(space) ? 1 : 0;
  }
  const double share = share_of(spaced, tokenizer);
  if (share < kManySpaced) return {};
  return Warning{
      .code = "words_without_space",
      .text = fmt::format("{} of the {} tokens of the vocabulary ({}) begin with the space before "
                          "a word, and the words of the lists get none: they are never used "
                          "(add_prefix_space: true of the tokenizer puts one before each)",
                          spaced, tokenizer.vocab_size(), share_text(share)),
      .count = static_cast<int64_t>(spaced),
      .share = share};
}

}  // namespace

std::vector<Warning> tokenizer_warnings(const Tokenizer& tokenizer, bool takes_words) {
  EncodeScratch scratch;
  std::vector<Warning> warnings;
  if (auto warning = lost_capitals(tokenizer, scratch)) warnings.push_back(*std::move(warning));
  if (!takes_words) return warnings;
  if (auto warning = words_without_space(tokenizer, scratch))
    warnings.push_back(*std::move(warning));
  return warnings;
}

}  // namespace snug::notices
