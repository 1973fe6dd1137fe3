// SPDX-License-Identifier: Apache-2.0
// A row of text, what is read of it, the interface of its readers, and the policy for bad rows.
// Knows neither files nor tokens nor label ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "snug/bad_rows.h"
#include "snug/error.h"

namespace snug::data {

inline constexpr int64_t kMaxRowBytes = int64_t{16} << 20;
inline constexpr int64_t kMaxBadExamples = 5;

/// What a text is. Only JSON has lists of words.
enum class TextForm : uint8_t { text, words, any };

/// Which columns to read. The names of the fields are the configuration keys that errors tell the
/// user to set.
struct RowSchema {
  std::string text_column = "text";
  std::string text_pair_column{};  // empty: no pair
  std::string label_column = "label";
  std::string weight_column{};  // empty: rows have no weight
  char delimiter = 0;           // of .csv and .tsv; 0: found in the header
  bool needs_label = true;      // false: the label column may be absent
  TextForm text_form = TextForm::text;
  bool class_names = true;  // labels that an Arrow file names are read by name (class_names.h)
  int64_t affordable_bytes = kMaxRowBytes;  // of a row; more is Error{out_of_budget}, never skipped
  bool operator==(const RowSchema&) const = default;
};

/// A label as the file gives it: one value, or a list of them (JSON alone has lists).
struct RowLabel {
  std::vector<std::string> items;  // texts, or numbers as text; whole ones without a point
  bool is_list = false;
  bool is_number = false;     // every item is a JSON number
  bool has_fraction = false;  // at least one of them is not whole
};

/// Whether a field of a file without quoting stands in the quotes of CSV. `doubled`: quotes within
/// it are doubled, which a text by itself hardly ever has.
enum class Quotes : uint8_t { none, around, doubled };

/// One row; its strings are reused by the next call.
struct Row {
  std::string text;
  std::vector<std::string> words;  // the text, where it is a list of words
  bool has_words = false;
  std::string pair;  // empty unless the schema names a pair column
  float weight = 1;
  std::optional<RowLabel> label;  // none: null, missing or empty
  Quotes quotes = Quotes::none;   // the most of any field
  int64_t line = 0;               // 1-based line of the file where the row begins
  int64_t item = 0;               // of an array of JSON: which object, from 1
};

/// What to do with a bad row, and what was done: stop throws the row's error, skip counts it and
/// keeps a few texts.
struct BadRowLog {
  BadRows policy = BadRows::stop;
  int64_t count = 0;
  std::vector<std::string> examples{};  // at most kMaxBadExamples, "file:line: what"
  std::function<void(const std::string& what)> on_skip{};  // the same of each row that is skipped

  void report(const Error& error);
};

/// Reads rows in file order. Not thread-safe. Heap: the longest row so far, three times over, and
/// 256 KiB.
class RowReader {
 public:
  virtual ~RowReader() = default;
  RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  /// Reads the next good row; false at the end of the file. A bad row goes to the log. Throws
  /// Error{bad_data} for a bad row (policy stop) or a file that is broken as a whole,
  /// Error{bad_config} for a missing column, Error{io}.
  [[nodiscard]] virtual bool next(Row& row) = 0;
  /// Columns of the header, or of the first object of JSON (at most 32 names); empty
  /// before the first row.
  [[nodiscard]] virtual const std::vector<std::string>& columns() const = 0;
  [[nodiscard]] virtual int64_t bytes_read() const = 0;
  [[nodiscard]] virtual int64_t total_bytes() const = 0;
};

}  // namespace snug::data
