// SPDX-License-Identifier: Apache-2.0
// The bytes of a token cache file, shared by the builder and the reader. Little-endian, as every
// machine Snug runs on.
//
//   Header | token ids and columns of each row, end to end | one IndexRecord a row | metadata
//   (JSON: key, columns, labels, report)
//
// The columns of a row stand behind its ids, in the order of the metadata, as words of 32 bits: a
// scalar is one, a vector `width` of them, a ragged column a count and so many. A label is the
// place of its name in the order of first sight; `codes` says which id that is.
//
// The header is written last, after all else has reached the disk, so a file without it is
// incomplete. Every byte is under a checksum: the header under its own, index and metadata under
// the header's, a row's ids and its columns under its record's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/cache_spec.h"

namespace snug::data {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kCacheMagic = 0x31'4B'4F'54'47'55'4E'53;  // "SNUGTOK1"
inline constexpr uint32_t kCacheVersion = 7;
inline constexpr uint32_t kCacheComplete = 0x45'4E'4F'44;  // "DONE"
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;
inline constexpr int32_t kMaxSequenceLength = int32_t{1} << 20;

struct CacheHeader {
  uint64_t magic = kCacheMagic;
  uint32_t version = kCacheVersion;
  uint32_t complete = kCacheComplete;
  uint64_t rows = 0;
  uint64_t tokens_bytes = 0;  // ids and columns, from sizeof(CacheHeader) on
  uint64_t metadata_bytes = 0;
  uint32_t token_bytes = 0;  // of one id: 2 where vocab_size <= 65,536, else 4
  uint32_t max_seq_length = 0;
  uint32_t vocab_size = 0;
  uint32_t reserved = 0;
  uint64_t index_checksum = 0;
  uint64_t metadata_checksum = 0;
  uint64_t header_checksum = 0;  // of all before it
};
static_assert(sizeof(CacheHeader) == 80);

struct IndexRecord {
  uint64_t offset = 0;  // of the row's ids, from the first row's
  uint64_t line = 0;
  uint32_t length = 0;  // in tokens
  uint32_t first_segment = 0;
  uint32_t column_bytes = 0;
  uint32_t file = 0;
  uint32_t checksum = 0;  // of the row's ids
  uint32_t column_checksum = 0;
};
static_assert(sizeof(IndexRecord) == 40);

/// A checksum of a byte stream fed in pieces that are multiples of 8 bytes, the last one apart. Any
/// change of a single word changes it. Against accidents, not against forgers: ids and bounds are
/// checked on their own.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] uint64_t value() const { return state_; }
  [[nodiscard]] uint32_t folded() const { return static_cast<uint32_t>(state_ ^ state_ >> 32); }

 private:
  uint64_t state_ = 0x736E7567;
};

template <class T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

[[nodiscard]] uint64_t header_checksum(const CacheHeader& header);
[[nodiscard]] inline uint32_t token_bytes_for(int32_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}

/// What a cache must have been made from: 32 hexadecimal digits over the spec and the SHA-256 of
/// its files. Neither sizes nor times say what is in a file: copies keep both, and one second may
/// see two writes. Reads the files once, about 0.1 s for 100 MB. Throws Error{io|cancelled}.
[[nodiscard]] std::string cache_key(const CacheSpec& spec, const BuildHooks& hooks = {});

struct CacheMetadata {
  std::string key;
  std::vector<ColumnSpec> columns;
  int64_t width = 0;           // values of a vector column
  std::vector<int32_t> codes;  // ids of labels by place of first sight; empty: places are ids
  Labels labels;
  LabelSource label_source = LabelSource::data;
  DataReport report;
};
[[nodiscard]] std::string to_json(const CacheMetadata& metadata);
/// Throws Error{bad_data} at `where` unless `text` has exactly the form that to_json writes.
[[nodiscard]] CacheMetadata metadata_from_json(const std::string& text, const std::string& where);

/// The columns of a cache that is made from this.
[[nodiscard]] std::vector<ColumnSpec> columns_of(const CacheSpec& spec);

/// Throws Error{bad_config} for a spec that makes no sense.
void check_spec(const CacheSpec& spec);

}  // namespace snug::data
