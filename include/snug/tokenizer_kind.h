// SPDX-License-Identifier: Apache-2.0
// The kinds of tokenizers that can be learned from a text.
#pragma once

#include <cstdint>

namespace snug {

enum class TokenizerKind : uint8_t { wordpiece, bpe, unigram };

}  // namespace snug
