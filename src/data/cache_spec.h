// SPDX-License-Identifier: Apache-2.0
// What a token cache is made from, how its making is watched and stopped, and what is reported of
// its rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/index_vector.h"
#include "data/columns.h"
#include "data/label_map.h"
#include "data/labels.h"
#include "data/row_reader.h"

namespace snug::data {

/// What is encoded of a row.
struct RowText {
  std::string_view text;
  std::span<const std::string> words;  // in place of the text, where the form has words
  const std::string* pair = nullptr;   // null where the schema has no pair column
  int64_t window = 0;  // of the row's text, which is that of the call before where it is above 0
};
/// Tokenises one row. Overwrites `out`, whose memory is reused.
using EncodeFn = std::function<void(const RowText& row, EncodedRow& out)>;

enum class LabelUse : uint8_t {
  find,   // training: labels come from these rows by CacheSpec::rule; unlabelled rows are counted
          // and dropped
  known,  // evaluation: labels are given; an unseen one is a bad row; unlabelled rows are counted
          // and dropped
  ignore  // prediction: every good row is kept in file order, empty text included; labels are not
          // read
};

/// What a cache is made from. Two equal specs over unchanged files give the same bytes.
struct CacheSpec {
  std::vector<std::string> files{};
  RowSchema schema{};
  const RowForm* form = &one_label();
  int64_t width = 0;  // values that a vector column must have; 0: as many as in the first row
  BadRows bad_rows = BadRows::stop;
  LabelUse label_use = LabelUse::find;
  LabelRule rule{};                        // with LabelUse::known only is_trained counts
  Labels known_labels{};                   // with LabelUse::known
  Overlong overlong = Overlong::truncate;  // the encoder knows it, too
  int64_t stride = 0;                      // of windows
  int32_t max_seq_length = 0;              // at most 1,048,576
  int32_t vocab_size = 0;                  // ids are below it
  int32_t unknown_id = -1;                 // of the token for what has none; -1: every text has
  std::string tokenizer_fingerprint{};     // any text that changes when the tokenizer does
};

/// Where every row went: rows_read = kept - more_windows + dropped_empty + dropped_long +
/// unlabelled
/// + bad.
struct DataReport {
  int64_t rows_read = 0;
  int64_t kept = 0;
  int64_t truncated = 0;  // of those kept
  int64_t dropped_empty = 0;
  int64_t dropped_long = 0;  // Overlong::drop
  int64_t windowed = 0;      // texts that are several rows here: windows
  int64_t more_windows = 0;  // rows beyond the first of their text
  int64_t unlabelled = 0;
  int64_t bad = 0;
  int64_t invisible = 0;                    // texts kept in which there is nothing to see
  int64_t quoted = 0;                       // rows kept with a field in CSV's quotes (Quotes)
  int64_t doubled_quotes = 0;               // of those
  int64_t tokens = 0;                       // of the rows kept, special tokens included
  int64_t unknown_tokens = 0;               // of those
  int32_t max_length = 0;                   // of the rows kept
  IndexVector<int64_t> length_counts{};     // by length in tokens, 0 .. max_length
  IndexVector<int64_t> label_counts{};      // by label id: how often it stands in a row
  std::vector<std::string> bad_examples{};  // the first few
  std::vector<std::string> lost_labels{};   // of rows dropped only: the first few
  bool operator==(const DataReport&) const = default;
};

struct BuildProgress {
  int64_t rows = 0;
  int64_t bytes_read = 0;
  int64_t total_bytes = 0;
};

struct BuildHooks {
  std::function<void(const BuildProgress&)> progress{};  // every 1,000 rows and at the end
  /// Bytes of a data file that are compared with those a cache was made from.
  std::function<void(int64_t done, int64_t total)> comparing{};
  const std::atomic<bool>* cancel =
      nullptr;  // set: the build throws Error{cancelled} and leaves no file
};

}  // namespace snug::data
