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

#include "text/unicode_rules.h"

namespace snug {

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

/// Finds patterns in a text. Immutable after the last add; refers to no token outside itself.
class AddedTokenMatcher {
 public:
  /// `pattern` is the content as it stands in the texts to search; later equal patterns are
  /// ignored.
  void add(const AddedToken& token, std::string_view pattern);
  [[nodiscard]] bool empty() const { return patterns_.empty(); }
  [[nodiscard]] int64_t heap_bytes() const;

  /// Calls between(piece) for the text between tokens (never empty) and matched(id) for each token,
  /// in order.
  template <class Between, class Matched>
  void split(std::string_view text, Between&& between, Matched&& matched) const {
    size_t done = 0;
    size_t from = 0;
    Match match;
    while (next(text, from, done, match)) {
      if (done < match.begin) between(text.substr(done, match.begin - done));
      matched(match.id);
      done = match.end;
    }
    if (done < text.size()) between(text.substr(done));
  }

 private:
  struct Pattern {
    std::string text;
    int32_t id;
    bool single_word, lstrip, rstrip;
  };
  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;
  };
  /// The next match at or after `from`, which moves behind it; it may begin no earlier than `done`.
  bool next(std::string_view text, size_t& from, size_t done, Match& match) const;
  [[nodiscard]] const Pattern* longest_at(std::string_view text) const;

  std::vector<Pattern> patterns_;  ///< sorted by first byte, then longest first
  std::array<uint32_t, 257>
      first_{};  ///< patterns that begin with byte b: first_[b] .. first_[b + 1]
};

}  // namespace snug
