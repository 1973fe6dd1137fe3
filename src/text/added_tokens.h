// SPDX-License-Identifier: Apache-2.0
// Added tokens: strings such as [MASK] that are cut out of a text whole, before (or, where they ask
// for it, after) normalisation. Leftmost match, the longest of those; options lstrip, rstrip,
// single_word as in `tokenizers`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/index_vector.h"
#include "text/longest_patterns.h"
#include "text/unicode_rules.h"

namespace snug::text {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  ///< only where no word character stands beside it
  bool lstrip = false;       ///< takes the white space on its left
  bool rstrip = false;       ///< takes the white space on its right
  bool normalized = false;   ///< looked for in the normalised text
  bool special = true;
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// What stands in the texts to search for an added token: its content, or that once normalised.
struct AddedPattern {
  std::string text;
  int32_t id = -1;
  bool single_word = false, lstrip = false, rstrip = false;
};

/// Finds patterns in a text, in time proportional to the text. Immutable.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// The first of equal patterns counts.
  explicit AddedTokenMatcher(std::vector<AddedPattern> patterns);
  [[nodiscard]] bool empty() const { return patterns_.empty(); }
  [[nodiscard]] int64_t heap_bytes() const;

  /// Calls between(piece) for the text between tokens (never empty) and matched(id) for each token,
  /// in order.
  template <class Between, class Matched>
  void split(std::string_view text, Between&& between, Matched&& matched) const {
    Search search;
    search.text = text;
    size_t done = 0;
    Match match;
    while (next(search, done, match)) {
      if (done < match.begin) between(text.substr(done, match.begin - done));
      matched(match.id);
      done = match.end;
    }
    if (done < text.size()) between(text.substr(done));
  }

 private:
  static constexpr size_t kWindow = 4096;
  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;
  };
  struct Search {
    std::string_view text;
    size_t from = 0;                       // no match begins before
    size_t window = 0;                     // where `longest` begins
    size_t window_end = 0;                 // and ends
    std::array<int32_t, kWindow> longest;  // patterns by where they begin
  };
  /// The next match; it may begin no earlier than `done`.
  bool next(Search& search, size_t done, Match& match) const;
  /// The pattern that stands at search.from, or null.
  const AddedPattern* longest_at(Search& search) const;

  IndexVector<AddedPattern> patterns_;
  LongestPatterns finder_;
};

}  // namespace snug::text
