// SPDX-License-Identifier: Apache-2.0
// Rows on disk, read in any order into the caller's memory: token sequences (token_cache.h) or
// images (image_file.h, image_folder.h), and the columns beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "data/columns.h"
#include "data/labels.h"

namespace snug::data {

// m: rows of the micro-batch, T: bucket length. A buffer may be empty: then it is not filled.
struct BatchBuffers {
  std::span<int32_t> input_ids{};       // (m, T)
  std::span<int32_t> token_type_ids{};  // (m, T)
  std::span<uint8_t> attention_mask{};  // (m, T), 1 for a token
  std::span<float> pixel_values{};      // (m, height, width, channels)
};

/// Slots [first_slot, first_slot + size) of the global batch `rows`. Slots past its end are padding
/// rows.
struct MicroBatch {
  std::span<const int64_t> rows{};
  int64_t first_slot = 0;
  int64_t size = 0;
  int64_t bucket_length = 1;  // of texts
  int32_t pad_id = 0;         // of texts
};

/// Const methods are thread-safe.
class RowStore {
 public:
  RowStore() = default;
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;
  RowStore(RowStore&&) = default;
  RowStore& operator=(RowStore&&) = default;
  virtual ~RowStore() = default;

  [[nodiscard]] virtual int64_t rows() const = 0;
  [[nodiscard]] virtual const Labels& labels() const = 0;
  /// Changes with any content, label or order of the rows: save it in checkpoints.
  [[nodiscard]] virtual uint64_t content_hash() const = 0;
  /// The most values that any row has in all of its columns together.
  [[nodiscard]] virtual int64_t most_values() const = 0;
  /// The row's columns in the order of their RowForm. Allocates nothing where `out` was reserved
  /// for most_values().
  virtual void read_columns(int64_t row, RowColumns& out) const = 0;
  /// The place of a column that the run asked for (kWeightColumn, kWindowColumn); none: it is not
  /// there.
  [[nodiscard]] virtual std::optional<size_t> find_column(std::string_view) const { return {}; }
  /// What a row is called, where it is a file of its own; empty: nothing but its number.
  [[nodiscard]] virtual std::string name(int64_t) const { return {}; }
  /// Lengths in tokens; 1 for an image.
  virtual void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const = 0;
  /// What hold_in_memory() takes; 0: it holds nothing.
  [[nodiscard]] virtual int64_t file_bytes() const { return 0; }
  /// Reads the file of the rows once, so that none is asked of the system again. Throws Error{io}
  /// and Error{bad_data} as reading does. Not while another thread reads.
  virtual void hold_in_memory() const {}
  /// Fetches rows that are read next into the caches, where they are held in memory, all at
  /// once instead of one after the other.
  virtual void expect(std::span<const int64_t> /*rows*/) const {}
  /// Fills the buffers; allocates nothing. Throws Error{bad_data} or Error{io} where a file no
  /// longer holds what was opened.
  virtual void fill(const MicroBatch& batch, const BatchBuffers& buffers) const = 0;
};

}  // namespace snug::data
