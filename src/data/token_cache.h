// SPDX-License-Identifier: Apache-2.0
// The token cache: a file on disk with the token ids of every usable row, built once in one
// streamed pass and then read row by row through pread. Memory does not grow with the number of
// rows, building and reading alike.
//
// Design: nothing is mapped, since mapped pages count in the process's resident set and hence in
// the user's budget. Nothing in a cache file is trusted: the header, the metadata and the whole row
// index are checked when it is opened, and the bounds, checksum and ids of a row each time it is
// read. Whether its source files are those that it was made from is known by their SHA-256, each
// time it is opened.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_vector.h"
#include "data/columns.h"
#include "data/label_map.h"
#include "data/labels.h"
#include "data/row_store.h"
#include "data/rows.h"

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
  IdVector<int64_t> length_counts{};        // by length in tokens, 0 .. max_length
  IdVector<int64_t> label_counts{};         // by label id: how often it stands in a row
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

/// What is known of a row without its ids.
struct RowInfo {
  int32_t length = 0;
  int32_t first_segment = 0;  // tokens of type 0; the rest are of type 1
  int32_t file = 0;           // index in CacheSpec::files
  int64_t line = 0;
};

/// An open cache. Const methods are thread-safe and allocate nothing.
class TokenCache final : public RowStore {
 public:
  /// Opens and checks a cache. Throws Error{io}, and Error{bad_data} for a file that is incomplete,
  /// damaged, hostile or made from another spec (the bytes of the source files included).
  [[nodiscard]] static TokenCache open(const std::string& path, const CacheSpec& spec);
  /// As above where cache_key(spec) is known.
  [[nodiscard]] static TokenCache open(const std::string& path, const CacheSpec& spec,
                                       const std::string& key);
  TokenCache(TokenCache&&) noexcept;
  TokenCache& operator=(TokenCache&&) noexcept;
  ~TokenCache() override;

  [[nodiscard]] int64_t rows() const override;
  [[nodiscard]] int32_t max_length() const { return report().max_length; }
  [[nodiscard]] const Labels& labels() const override;
  /// Where the order of the labels came from, with LabelUse::find.
  [[nodiscard]] LabelSource label_source() const;
  [[nodiscard]] const DataReport& report() const;
  [[nodiscard]] const std::vector<std::string>& files() const;
  [[nodiscard]] uint64_t content_hash() const override;
  /// Values of a vector column; 0 where there is none.
  [[nodiscard]] int64_t width() const;
  [[nodiscard]] int64_t most_values() const override;
  [[nodiscard]] std::optional<size_t> find_column(std::string_view name) const override;
  void read_columns(int64_t row, RowColumns& out) const override;

  /// Throws Error{bad_data} where the file no longer holds what open() saw, Error{io}.
  [[nodiscard]] RowInfo info(int64_t row) const;
  /// Writes the row's ids into the first info.length elements of `ids`, which must be long enough.
  [[nodiscard]] RowInfo read_row(int64_t row, std::span<int32_t> ids) const;
  void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const override;
  /// Padding: pad ids, type 0, mask 0 everywhere.
  void fill(const MicroBatch& batch, const BatchBuffers& buffers) const override;

 private:
  struct State;
  explicit TokenCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Builds the cache at `path` through a temporary file beside it, which replaces `path` only when
/// complete. Throws what the readers throw, Error{bad_data} where no row is left, Error{io} (a full
/// disk), Error{cancelled}.
DataReport build_token_cache(const std::string& path, const CacheSpec& spec, const EncodeFn& encode,
                             const BuildHooks& hooks = {});
/// As above where cache_key(spec) is known.
DataReport build_token_cache(const std::string& path, const CacheSpec& spec, const std::string& key,
                             const EncodeFn& encode, const BuildHooks& hooks);

/// Opens the cache at `path`, or builds it first where there is none or it does not fit.
[[nodiscard]] TokenCache open_or_build_token_cache(const std::string& path, const CacheSpec& spec,
                                                   const EncodeFn& encode,
                                                   const BuildHooks& hooks = {});

}  // namespace snug::data
