// SPDX-License-Identifier: Apache-2.0
// BPE by ranked merges, as in `tokenizers`: the characters of a word are symbols, and the pair with
// the lowest rank (of equal ones the leftmost) becomes one symbol until no pair is left.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "text/word_model.h"

namespace snug::text {

struct BpeOptions {
  std::string unk_token;  ///< empty: unknown characters are left out
  std::string prefix;     ///< of characters that continue a word
  std::string suffix;     ///< of the last character of a word
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// Pairs of ids that become an id; their rank is their place in the list. Of equal pairs the last
/// counts.
struct BpeMerge {
  int32_t left, right, id;
};

/// `vocabulary` must outlive the model. `where` names the file in errors.
[[nodiscard]] std::unique_ptr<const WordModel> make_bpe(const TokenTable& vocabulary,
                                                        const std::vector<BpeMerge>& merges,
                                                        BpeOptions options,
                                                        const std::string& where);

}  // namespace snug::text
