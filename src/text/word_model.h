// SPDX-License-Identifier: Apache-2.0
// What turns a pre-token (a word) into ids of the vocabulary: WordPiece, BPE or Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_table.h"

namespace snug::text {

/// Working memory of the models. What a long word made large is reused, not given back.
struct WordScratch {
  struct Boundary {
    uint64_t hash;
    size_t end;
  };
  std::vector<Boundary> boundaries;  // WordPiece
  struct Symbol {                    // BPE
    int32_t id;                      // -1: it went into the one before it
    int32_t previous, next;
  };
  struct Merge {
    uint32_t rank;
    int32_t place;
    int32_t id;
  };
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::string piece;
  template <class Score>
  struct Path {  // Unigram: the best way to an end
    Score score;
    int32_t id;
    uint32_t begin;
  };
  std::vector<Path<double>> paths;
  std::vector<Path<float>> short_paths;
  std::vector<int32_t> backwards;
};

/// Immutable; one object serves any number of threads, each with its own scratch.
class WordModel {
 public:
  virtual ~WordModel() = default;
  /// Appends the ids of a word, which is not empty.
  virtual void append(std::string_view word, std::vector<int32_t>& ids,
                      WordScratch& scratch) const = 0;
  /// -1 where there is none.
  [[nodiscard]] virtual int32_t unk_id() const = 0;
  /// Whether words should be kept with their ids: worth it where they cost more than a look-up.
  [[nodiscard]] virtual bool is_worth_caching() const { return true; }
  /// Working memory for each byte of a word.
  [[nodiscard]] virtual int64_t bytes_per_byte() const = 0;
  [[nodiscard]] virtual int64_t heap_bytes() const = 0;
};

}  // namespace snug::text
