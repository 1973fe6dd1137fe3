// SPDX-License-Identifier: Apache-2.0
// Tokens of a vocabulary that the texts of a run never become: the tokenizer makes them otherwise
// than the vocabulary was made.
#pragma once

#include <vector>

#include "snug/run.h"
#include "text/tokenizer.h"

namespace snug::notices {

/// A vocabulary with capitals behind a normalizer that leaves none; with `takes_words` (a text is a
/// list of words, each tokenised by itself) one whose words begin with the space before them, which
/// nothing puts there.
[[nodiscard]] std::vector<Warning> tokenizer_warnings(const text::Tokenizer& tokenizer,
                                                      bool takes_words);

}  // namespace snug::notices
