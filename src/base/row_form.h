// SPDX-License-Identifier: Apache-2.0
// Ops that are computed a piece of their rows at a time, and which of them can be computed
// together: each goes through a piece while it lies in a cache, so that what one makes for the next
// need not be in memory at all (a row program).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace snug {

/// How the rows of an op are cut. A row is what the op can be cut into at the finest: an element of
/// a sum of two tensors, a row of a normalisation.
struct RowGrid {
  int64_t rows = 0;   // 0: the op is not computed by rows
  int64_t step = 1;   // pieces begin at multiples of so many rows
  int64_t grain = 1;  // threads begin at multiples of so many, and take their pieces in order
  bool operator==(const RowGrid&) const = default;
};

/// What an op makes in a piece follows from the same rows of what it reads by rows and from all
/// else that it reads, in the same operations whatever the pieces are.
struct RowwiseForm {
  RowGrid grid = {};
  std::vector<int64_t> inputs = {};   // bytes of a row, by input; 0: it is read as a whole
  std::vector<int64_t> outputs = {};  // by output; 0: it is there behind the last piece
  int64_t scratch_bytes = 0;          // beside that of the program
  int32_t threads = 1;                // that work at once; a grid with fewer grains is no program's
  [[nodiscard]] bool is_given() const { return grid.rows > 0; }
  bool operator==(const RowwiseForm&) const = default;
};

/// Bytes that a piece takes of all its operands together: they stay in a cache of the second level
/// beside what the processor fetches ahead.
inline constexpr int64_t kRowPieceBytes = int64_t{192} << 10;

/// The ops of a row program, one after the other, and what it may not do. Operands have a key each
/// (a storage): what is made under one is what is read under it.
class RowProgram {
 public:
  /// Whether the op can be computed in the program, behind those that are in it; then it is in it.
  /// `inputs`, `outputs`: keys, in the form's order; -1 for an input that is not given. `reuses`:
  /// outputs that may be written over inputs, by key.
  bool add(const RowwiseForm& form, std::span<const int64_t> inputs,
           std::span<const int64_t> outputs,
           std::span<const std::pair<int64_t, int64_t>> reuses = {});

  [[nodiscard]] const RowGrid& grid() const { return grid_; }
  /// Rows of the grid that are computed at a time.
  [[nodiscard]] int64_t piece_rows() const;
  /// Bytes of a row of the grid; 0 for what is no operand by rows, or a whole one for some op.
  [[nodiscard]] int64_t row_bytes(int64_t key) const;
  /// The size of the buffers of all threads for an operand that no memory is given for.
  [[nodiscard]] int64_t buffer_bytes(int64_t key) const { return buffer_bytes(key, piece_rows()); }
  /// `piece_rows`: those of the program, which takes a pass over its operands.
  [[nodiscard]] int64_t buffer_bytes(int64_t key, int64_t piece_rows) const;
  [[nodiscard]] int32_t threads() const { return threads_; }
  void clear();

  /// Buffers and scratch begin at multiples of this.
  static constexpr int64_t kAlignment = 64;

 private:
  struct Operand {
    int64_t key = 0;
    int64_t bytes = 0;  // of all rows; 0: it is not read or made by rows
    bool is_made = false;
    bool is_whole = false;  // an op reads all of it, or it is not there before the last piece
  };
  RowGrid grid_;
  RowGrid last_;  // of the op that was added last
  int32_t threads_ = 1;
  std::vector<Operand> operands_;
  std::vector<Operand> changed_;  // while an op is added
};

}  // namespace snug
