// SPDX-License-Identifier: Apache-2.0
// The stages in which each storage is read or made, as bits: a row for each storage, from its
// producer's stage on. A second level of bits says which words have any, so that a neighbour is
// found in few steps however far it is.
#pragma once

#include <cstdint>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/graphs/stage_graph.h"

namespace snug::plan {

class Touches {
 public:
  static constexpr int32_t kNoneBefore = -1;
  static constexpr int32_t kNoneBehind = INT32_MAX;

  explicit Touches(const StageGraph& graph);

  void clear();
  /// Never before the storage's producer.
  void add(ArenaId storage, int32_t stage);
  void remove(ArenaId storage, int32_t stage);

  [[nodiscard]] bool has(ArenaId storage, int32_t stage) const {
    const Row& row = rows_[storage];
    const int32_t word = stage / 64 - row.first_word;
    return word >= 0 && (words_[row.begin + word] >> (stage % 64) & 1) != 0;
  }
  /// The first touch at the stage or behind it.
  [[nodiscard]] int32_t first_from(ArenaId storage, int32_t stage) const;
  /// The last one before the stage.
  [[nodiscard]] int32_t last_before(ArenaId storage, int32_t stage) const;
  [[nodiscard]] int32_t count(ArenaId storage) const;
  /// The touch that has so many before it.
  [[nodiscard]] int32_t nth(ArenaId storage, int32_t before) const;

 private:
  struct Row {
    int64_t begin = 0;
    int64_t begin_any = 0;
    int32_t first_word = 0;
  };
  [[nodiscard]] int32_t words_of(const Row& row) const { return all_words_ - row.first_word; }

  int32_t all_words_ = 0;  // of a whole row
  IdVector<ArenaId, Row> rows_;
  IndexVector<uint64_t> words_;
  IndexVector<uint64_t> any_;  // a bit for each word
};

}  // namespace snug::plan
