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

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache_spec.h"
#include "data/row_store.h"

namespace snug::data {

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
  [[nodiscard]] int64_t file_bytes() const override;
  void hold_in_memory() const override;
  void expect(std::span<const int64_t> rows) const override;
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
