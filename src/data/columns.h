// SPDX-License-Identifier: Apache-2.0
// What a row has beside its text or image: named, typed columns, and how a task makes them of a
// row. A column has one value a row, a fixed number of them, or as many as the row has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/row_reader.h"

namespace snug::data {

enum class ColumnForm : uint8_t { scalar, vector, ragged };
enum class ColumnType : uint8_t {
  label,    // an id; the row gives a name
  integer,  // i32
  real      // f32
};

struct ColumnSpec {
  std::string name;
  ColumnForm form = ColumnForm::scalar;
  ColumnType type = ColumnType::label;
  bool is_of_label = true;  // rows that are predicted do not have it
  bool operator==(const ColumnSpec&) const = default;
};

// Columns that a run asks for, behind those of the task.
inline constexpr const char* kWeightColumn = "row weight";      // f32: how much a row counts
inline constexpr const char* kWindowColumn = "window of text";  // i32: its place among a text's

/// What a text of more than max_seq_length tokens becomes.
enum class Overlong : uint8_t {
  truncate,   // its first tokens
  error,      // the end of the run
  drop,       // nothing: it is counted
  tail,       // its last tokens
  head_tail,  // the first and the last half of the tokens that there is room for
  window      // several rows
};

/// One row as token ids, special tokens included. The encoder has truncated it to max_seq_length.
struct EncodedRow {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // empty (all 0), or as long as ids: zeros, then ones
  std::vector<int32_t> words;     // of a list of words: each one's first token; -1: none is left
  bool truncated = false;
  bool has_more = false;  // windows of the text behind this one
};

/// Labels by their places in a list of all labels: of [0, 1, 1] the places 1 and 2 of 3.
struct LabelPlaces {
  int64_t count = 0;
  std::vector<int32_t> taken;
};

/// What a row gives a column; its memory is reused. The type of the column decides which is read.
struct ColumnDraft {
  std::vector<std::string> names;
  bool names_are_ids = false;         // a file has ids or names
  std::optional<LabelPlaces> places;  // in place of names
  std::vector<int32_t> integers;
  std::vector<float> reals;
};

/// The place of each word's first token, in a form of words.
inline constexpr size_t kWordColumn = 0;

/// What rows of a task look like.
struct RowForm {
  std::string name;        // no two are called the same
  bool has_words = false;  // the text is a list of words
  std::vector<ColumnSpec> columns;
  /// Makes the columns of a row; those of the label where there is one. Throws Error{bad_data} at
  /// `where` for a label of another kind: `bad_rows` decides what follows.
  void (*read)(const Row& row, const EncodedRow& encoded, const std::string& where,
               std::span<ColumnDraft> columns) = nullptr;
};

/// A row of one label out of several: one column, "label". What a row is where no task says more.
[[nodiscard]] const RowForm& one_label();

/// One row's values. Its memory is reused: after reserve() for the longest row nothing allocates.
class RowColumns {
 public:
  void reserve(int64_t values);
  void clear();
  /// Appends a column of this many values, all zero; the other functions see it at once.
  std::span<int32_t> add_integers(int64_t count);
  std::span<float> add_reals(int64_t count);

  [[nodiscard]] size_t size() const { return columns_.size(); }
  [[nodiscard]] std::span<const int32_t> integers(size_t column) const;  // ids of labels, too
  [[nodiscard]] std::span<const float> reals(size_t column) const;
  [[nodiscard]] std::span<int32_t> edit_integers(size_t column);

 private:
  struct Range {
    bool is_real = false;
    size_t begin = 0;
    size_t count = 0;
  };
  std::vector<Range> columns_;
  std::vector<int32_t> integers_;
  std::vector<float> reals_;
};

}  // namespace snug::data
