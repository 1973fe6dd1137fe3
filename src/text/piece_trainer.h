// SPDX-License-Identifier: Apache-2.0
// sentencepiece's trainers over words with counts, whose symbols are the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug::text {

/// A word as symbols (numbers below kMaxSymbols) with its count.
struct SymbolWord {
  std::vector<uint16_t> symbols;
  int64_t count = 0;
};
inline constexpr int64_t kMaxSymbols = 0xD800 - 0x3400;

struct ScoredPiece {
  std::vector<uint16_t> symbols;
  double score = 0;
};

/// Byte pair encoding: returns up to `merges` sequences of two or more symbols, in the order in
/// which the trainer made them.
[[nodiscard]] std::vector<std::vector<uint16_t>> train_pieces(const std::vector<SymbolWord>& words,
                                                              int64_t merges);
/// Unigram: returns up to `size` sequences, every single symbol of the words among them, with the
/// logarithms of their probabilities, the greatest first. `size` must be above the number of
/// symbols.
[[nodiscard]] std::vector<ScoredPiece> train_unigram(const std::vector<SymbolWord>& words,
                                                     int64_t size);

}  // namespace snug::text
