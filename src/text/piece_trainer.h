// SPDX-License-Identifier: Apache-2.0
// sentencepiece's BPE trainer over words with counts, with WordPiece's distinction of first and
// later characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// A word as symbols (numbers below kMaxSymbols) with its count.
struct SymbolWord {
  std::vector<uint16_t> symbols;
  int64_t count = 0;
};
inline constexpr int64_t kMaxSymbols = 0xD800 - 0x3400;

/// Returns up to `merges` sequences of two or more symbols, in the order in which the trainer made
/// them.
[[nodiscard]] std::vector<std::vector<uint16_t>> train_pieces(const std::vector<SymbolWord>& words,
                                                              int64_t merges);

}  // namespace snug
