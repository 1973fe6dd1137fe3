// SPDX-License-Identifier: Apache-2.0
// Token caches. The key of the settings stands in for "KEY", and sizes and checksums are made right
// unless the first byte says that the bytes are to be taken as they are.
//
//   input: choice | rows | bytes of ids | index records of the rows | ids | metadata
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "data/cache_format.h"
#include "data/token_cache.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {
namespace {

using data::Checksum;
using data::IndexRecord;

constexpr size_t kMostRows = 16;

data::CacheSpec spec_of(const std::string& source) {
  data::CacheSpec spec;
  spec.files = {source};
  spec.max_seq_length = 8;
  spec.vocab_size = 100;
  return spec;
}

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class Value>
uint64_t checksum_of(const Value& bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

void seal_rows(std::vector<IndexRecord>& records, std::string_view ids) {
  for (IndexRecord& record : records) {
    if (record.offset > ids.size()) continue;
    Checksum checksum;
    const size_t ids_bytes = size_t{record.length} * 2;
    checksum.add(bytes_in(ids.substr(record.offset, ids_bytes)));
    record.checksum = checksum.folded();
    if (record.offset + ids_bytes > ids.size()) continue;
    Checksum columns;
    columns.add(bytes_in(ids.substr(record.offset + ids_bytes, record.column_bytes)));
    record.column_checksum = columns.folded();
  }
}

std::string sealed(std::string_view input, const data::CacheSpec& spec) {
  const size_t rows = take_byte(input) % kMostRows;
  const size_t wanted_bytes = take_byte(input);
  const size_t ids_bytes = std::min(wanted_bytes, input.size());
  const std::string_view ids = input.substr(0, ids_bytes);
  input.remove_prefix(ids_bytes);
  std::vector<IndexRecord> records(rows);
  const size_t index_bytes = std::min(rows * sizeof(IndexRecord), input.size());
  if (rows > 0) std::memcpy(records.data(), input.data(), index_bytes);
  input.remove_prefix(index_bytes);
  seal_rows(records, ids);
  const std::string metadata = replace(std::string(input), "KEY", data::cache_key(spec));
  const std::span<const std::byte> index = std::as_bytes(std::span<const IndexRecord>(records));
  data::CacheHeader header;
  header.rows = rows;
  header.tokens_bytes = ids_bytes;
  header.metadata_bytes = metadata.size();
  header.token_bytes = 2;
  header.max_seq_length = 8;
  header.vocab_size = 100;
  header.index_checksum = checksum_of(index);
  header.metadata_checksum = checksum_of(bytes_in(metadata));
  header.header_checksum = data::header_checksum(header);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(ids) +
         std::string(reinterpret_cast<const char*>(records.data()), index.size()) + metadata;
}

}  // namespace

void read_token_cache(std::string_view input) {
  static const std::string source = write_file("source.jsonl", "{}");
  const data::CacheSpec spec = spec_of(source);
  const bool is_raw = take_byte(input) == 0xff;
  const auto cache = data::TokenCache::open(
      write_file("tokens.cache", is_raw ? std::string(input) : sealed(input, spec)), spec);
  std::vector<int32_t> ids(8);
  data::RowColumns columns;
  for (int64_t row = 0; row < cache.rows(); ++row) {
    const data::RowInfo info = cache.read_row(row, ids);
    try {
      cache.read_columns(row, columns);
      require(columns.integers(0).front() < cache.labels().size(), "a label has a name");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::bad_data, "columns are refused as bad data");
    }
    for (int32_t i = 0; i < info.length; ++i)
      require(ids[static_cast<size_t>(i)] >= 0 && ids[static_cast<size_t>(i)] < 100,
              "an id is a token's");
  }
}

}  // namespace snug::fuzz
