// SPDX-License-Identifier: Apache-2.0
// Reads token caches. open() checks everything but the ids of the rows; read_row checks those,
// since a cache may be far larger than what is worth reading at every start.
#include "data/token_cache.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "data/cache_format.h"
#include "data/source.h"
#include "io/file.h"

namespace snug::data {
namespace {

constexpr size_t kChunkBytes = 4096;
constexpr size_t kCheckRecords = 1024;
constexpr uint64_t kFetchedBytes = 256;
// A cache above this size is dropped from the page cache each time about this much of it was
// touched.
constexpr int64_t kReleaseBytes = int64_t{256} << 20;

Error damaged(const std::string& path, const std::string& what) {
  return Error(ErrorCode::bad_data, path, "the token cache is damaged: " + what,
               "delete the file; it is built again");
}

// Returns the largest.
template <class Stored>
uint32_t widen_ids(std::span<const std::byte> stored, int32_t* ids) {
  uint32_t largest = 0;
  for (size_t i = 0; i < stored.size() / sizeof(Stored); ++i) {
    Stored id;
    std::memcpy(&id, stored.data() + i * sizeof(Stored), sizeof(Stored));
    largest = std::max<uint32_t>(largest, id);
    ids[i] = static_cast<int32_t>(id);
  }
  return largest;
}

}  // namespace

struct TokenCache::State {
  std::string path;
  io::File file;
  CacheHeader header;
  uint64_t index_offset = 0;
  std::vector<std::string> files;
  CacheMetadata metadata;
  uint64_t content_hash = 0;
  uint64_t most_column_bytes = 0;
  std::atomic<int64_t> touched_bytes{0};
  std::vector<std::byte> held;  // the whole file; empty: it is read

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void read_at(uint64_t offset, std::span<std::byte> bytes) {
    if (!held.empty()) {
      SNUG_CHECK(offset <= held.size() && bytes.size() <= held.size() - offset, "beyond the file");
      std::memcpy(bytes.data(), held.data() + offset, bytes.size());
      return;
    }
    const auto wanted = static_cast<int64_t>(bytes.size());
    if (file.read_some_at(static_cast<int64_t>(offset), bytes.data(), wanted) != wanted)
      throw damaged(path, "it ends too early");
  }

  void release_behind(int64_t bytes) {
    if (!held.empty() || static_cast<int64_t>(index_offset) < kReleaseBytes) return;
    const int64_t touched =
        bytes + static_cast<int64_t>(kChunkBytes);  // a read touches a page or two
    if (touched_bytes.fetch_add(touched, std::memory_order_relaxed) + touched < kReleaseBytes)
      return;
    touched_bytes.store(0, std::memory_order_relaxed);
    file.release_cache();
  }

  // The limits of one record; holds for any bytes that a file can contain.
  void check(const IndexRecord& record) const {
    const uint64_t bytes = uint64_t{record.length} * header.token_bytes;
    const bool is_good = record.length <= header.max_seq_length &&
                         record.first_segment <= record.length &&
                         record.offset <= header.tokens_bytes &&
                         bytes + record.column_bytes <= header.tokens_bytes - record.offset &&
                         record.column_bytes % sizeof(uint32_t) == 0 &&
                         record.file < files.size() && record.line <= uint64_t{1} << 62;
    if (!is_good) throw damaged(path, "a row record is out of bounds");
  }

  IndexRecord record_of(int64_t row) {
    SNUG_CHECK(row >= 0 && static_cast<uint64_t>(row) < header.rows, "row out of range");
    IndexRecord record;
    read_at(index_offset + static_cast<uint64_t>(row) * sizeof(IndexRecord),
            std::as_writable_bytes(std::span(&record, 1)));
    check(record);
    return record;
  }

  void open_file(const std::string& cache_path);
  void read_header(const CacheSpec& spec);
  void read_metadata(const CacheSpec& spec, const std::string& key);
  void check_index();
};

void TokenCache::State::open_file(const std::string& cache_path) {
  path = cache_path;
  file = io::File::open_read(path);
  file.expect_random_reads();
}

void TokenCache::State::read_header(const CacheSpec& spec) {
  const auto file_bytes = static_cast<uint64_t>(file.size_bytes());
  if (file_bytes < sizeof(CacheHeader)) throw damaged(path, "it is shorter than its header");
  read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic == 0 && header.complete == 0) throw damaged(path, "it was never completed");
  if (header.magic != kCacheMagic) throw damaged(path, "it is not a token cache");
  if (header.version != kCacheVersion) throw damaged(path, "it is of another version");
  if (header.complete != kCacheComplete) throw damaged(path, "it was never completed");
  if (header.header_checksum != header_checksum(header))
    throw damaged(path, "the header does not match its checksum");
  // Bound every term before adding: no sum below can overflow.
  const bool is_bounded =
      header.tokens_bytes <= file_bytes && header.metadata_bytes <= file_bytes &&
      header.metadata_bytes <= kMaxMetadataBytes && header.rows <= file_bytes / sizeof(IndexRecord);
  if (!is_bounded || sizeof(CacheHeader) + header.tokens_bytes + header.rows * sizeof(IndexRecord) +
                             header.metadata_bytes !=
                         file_bytes) {
    throw damaged(path, "its size does not match its header");
  }
  const bool fits = header.max_seq_length == static_cast<uint32_t>(spec.max_seq_length) &&
                    header.vocab_size == static_cast<uint32_t>(spec.vocab_size) &&
                    header.token_bytes == token_bytes_for(spec.vocab_size);
  if (!fits)
    throw Error(ErrorCode::bad_data, path, "the token cache was made from other data or settings");
  index_offset = sizeof(CacheHeader) + header.tokens_bytes;
}

void TokenCache::State::read_metadata(const CacheSpec& spec, const std::string& key) {
  std::string text(header.metadata_bytes, '\0');
  read_at(index_offset + header.rows * sizeof(IndexRecord),
          std::as_writable_bytes(std::span(text)));
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(std::as_const(text))));
  if (checksum.value() != header.metadata_checksum) {
    throw damaged(path, "the metadata do not match their checksum");
  }
  metadata = metadata_from_json(text, path);
  if (metadata.key != key) {
    throw Error(ErrorCode::bad_data, path, "the token cache was made from other data or settings");
  }
  if (metadata.columns != columns_of(spec) ||
      (spec.width > 0 && metadata.width > 0 && metadata.width != spec.width))
    throw damaged(path, "its columns are of another task");
  files = spec.files;
  Checksum content;
  content.add(bytes_of(header.index_checksum));
  content.add(std::as_bytes(std::span(std::as_const(metadata.codes))));
  for (const std::string& name : metadata.labels.names()) {
    content.add(bytes_of(name.size()));
    content.add(std::as_bytes(std::span(name)));
  }
  content_hash = content.value();
}

// Streams through the index: checksum, limits, rows end to end, and totals equal to the report's.
void TokenCache::State::check_index() {
  std::vector<IndexRecord> records(kCheckRecords);
  Checksum checksum;
  uint64_t offset = 0;
  uint64_t tokens = 0;
  uint32_t max_length = 0;
  for (uint64_t row = 0; row < header.rows; row += records.size()) {
    records.resize(static_cast<size_t>(std::min<uint64_t>(header.rows - row, kCheckRecords)));
    read_at(index_offset + row * sizeof(IndexRecord), std::as_writable_bytes(std::span(records)));
    checksum.add(std::as_bytes(std::span(std::as_const(records))));
    for (const IndexRecord& record : records) {
      check(record);
      if (record.offset != offset) throw damaged(path, "its rows do not follow each other");
      offset += uint64_t{record.length} * header.token_bytes + record.column_bytes;
      most_column_bytes = std::max(most_column_bytes, uint64_t{record.column_bytes});
      tokens += record.length;
      max_length = std::max(max_length, record.length);
    }
  }
  if (checksum.value() != header.index_checksum)
    throw damaged(path, "the row index does not match its checksum");
  const DataReport& report = metadata.report;
  if (offset != header.tokens_bytes || static_cast<uint64_t>(report.kept) != header.rows ||
      static_cast<uint64_t>(report.tokens) != tokens ||
      static_cast<uint32_t>(report.max_length) != max_length ||
      report.length_counts.size() != size_t{max_length} + 1) {
    throw damaged(path, "its report does not match its rows");
  }
}

TokenCache::TokenCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
TokenCache::TokenCache(TokenCache&&) noexcept = default;
TokenCache& TokenCache::operator=(TokenCache&&) noexcept = default;
TokenCache::~TokenCache() = default;

TokenCache TokenCache::open(const std::string& path, const CacheSpec& spec) {
  check_spec(spec);
  return open(path, spec, cache_key(spec));
}

TokenCache TokenCache::open(const std::string& path, const CacheSpec& spec,
                            const std::string& key) {
  check_spec(spec);
  auto state = std::make_unique<State>();
  state->open_file(path);
  state->read_header(spec);
  state->read_metadata(spec, key);
  state->check_index();
  return TokenCache(std::move(state));
}

int64_t TokenCache::rows() const { return static_cast<int64_t>(state_->header.rows); }
const Labels& TokenCache::labels() const { return state_->metadata.labels; }
LabelSource TokenCache::label_source() const { return state_->metadata.label_source; }
const DataReport& TokenCache::report() const { return state_->metadata.report; }
const std::vector<std::string>& TokenCache::files() const { return state_->files; }
uint64_t TokenCache::content_hash() const { return state_->content_hash; }
int64_t TokenCache::width() const { return state_->metadata.width; }
int64_t TokenCache::most_values() const {
  return static_cast<int64_t>(state_->most_column_bytes / sizeof(uint32_t));
}

// As it was when it was opened and checked.
int64_t TokenCache::file_bytes() const {
  const CacheHeader& header = state_->header;
  return static_cast<int64_t>(state_->index_offset + header.rows * sizeof(IndexRecord) +
                              header.metadata_bytes);
}

void TokenCache::hold_in_memory() const {
  std::vector<std::byte> bytes(static_cast<size_t>(file_bytes()));
  state_->read_at(0, bytes);
  state_->held = std::move(bytes);
}

void TokenCache::expect(std::span<const int64_t> rows) const {
  State& state = *state_;
  if (state.held.empty()) return;
  const auto fetch = [&](uint64_t begin, uint64_t bytes) {
    constexpr uint64_t kLine = 64;
    for (uint64_t at = begin / kLine * kLine; at < begin + bytes; at += kLine)
      __builtin_prefetch(state.held.data() + at);
  };
  for (const int64_t row : rows)
    fetch(state.index_offset + static_cast<uint64_t>(row) * sizeof(IndexRecord),
          sizeof(IndexRecord));
  for (const int64_t row : rows) {
    const IndexRecord record = state.record_of(row);
    const uint64_t begin = sizeof(CacheHeader) + record.offset;
    const uint64_t bytes = uint64_t{record.length} * state.header.token_bytes;
    fetch(begin, std::min(bytes, kFetchedBytes));  // what follows the processor fetches itself
    fetch(begin + bytes, record.column_bytes);
  }
}

std::optional<size_t> TokenCache::find_column(std::string_view name) const {
  const std::vector<ColumnSpec>& columns = state_->metadata.columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
  }
  return {};
}

namespace {

RowInfo info_of(const IndexRecord& record) {
  return {.length = static_cast<int32_t>(record.length),
          .first_segment = static_cast<int32_t>(record.first_segment),
          .file = static_cast<int32_t>(record.file),
          .line = static_cast<int64_t>(record.line)};
}

}  // namespace

RowInfo TokenCache::info(int64_t row) const { return info_of(state_->record_of(row)); }

void TokenCache::read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const {
  SNUG_CHECK(lengths.size() >= rows.size(), "too little room for the lengths");
  for (size_t i = 0; i < rows.size(); ++i)
    lengths[i] = static_cast<int32_t>(state_->record_of(rows[i]).length);
}

RowInfo TokenCache::read_row(int64_t row, std::span<int32_t> ids) const {
  const IndexRecord record = state_->record_of(row);
  SNUG_CHECK(ids.size() >= record.length, "too little room for a row");
  const size_t token_bytes = state_->header.token_bytes;
  const auto widen = token_bytes == sizeof(uint16_t) ? widen_ids<uint16_t> : widen_ids<uint32_t>;
  const size_t total = record.length * token_bytes;
  alignas(int32_t) std::array<std::byte, kChunkBytes> chunk;
  Checksum checksum;
  uint32_t largest = 0;
  for (size_t done = 0; done < total; done += kChunkBytes) {
    const std::span<std::byte> part = std::span(chunk).first(std::min(kChunkBytes, total - done));
    state_->read_at(sizeof(CacheHeader) + record.offset + done, part);
    checksum.add(part);
    largest = std::max(largest, widen(part, ids.data() + done / token_bytes));
  }
  if (checksum.folded() != record.checksum) {
    throw damaged(state_->path, "row " + std::to_string(row) + " does not match its checksum");
  }
  if (total > 0 && largest >= state_->header.vocab_size) {
    throw damaged(state_->path,
                  "row " + std::to_string(row) + " holds an id outside the vocabulary");
  }
  state_->release_behind(static_cast<int64_t>(total));
  return info_of(record);
}

namespace {

// The words of a row's columns, in order, read in pieces.
class ColumnWords {
 public:
  using Read = std::function<void(uint64_t, std::span<std::byte>)>;
  ColumnWords(uint64_t offset, uint64_t bytes, Read read)
      : offset_(offset), left_(bytes), read_(std::move(read)) {}

  [[nodiscard]] uint64_t words_left() const { return left_ / sizeof(uint32_t) + (size_ - at_); }
  uint32_t next() {
    if (at_ == size_) refill();
    return buffer_[at_++];
  }
  [[nodiscard]] const Checksum& checksum() const { return checksum_; }

 private:
  void refill() {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(left_, sizeof(buffer_)));
    const std::span<std::byte> part = std::as_writable_bytes(std::span(buffer_)).first(bytes);
    read_(offset_, part);
    checksum_.add(part);
    offset_ += bytes;
    left_ -= bytes;
    at_ = 0;
    size_ = bytes / sizeof(uint32_t);
  }

  uint64_t offset_;
  uint64_t left_;
  Read read_;
  std::array<uint32_t, kChunkBytes / sizeof(uint32_t)> buffer_;  // what is read, not cleared before
  size_t at_ = 0;
  size_t size_ = 0;
  Checksum checksum_;
};

}  // namespace

void TokenCache::read_columns(int64_t row, RowColumns& out) const {
  const IndexRecord record = state_->record_of(row);
  const CacheMetadata& metadata = state_->metadata;
  const auto fail = [&](const char* what) {
    throw damaged(state_->path, "row " + std::to_string(row) + what);
  };
  const auto id_of = [&](uint32_t word) {
    const uint64_t limit =
        metadata.codes.empty() ? metadata.labels.names().size() : metadata.codes.size();
    if (word >= limit) fail(" has a label without a name");
    return metadata.codes.empty() ? static_cast<int32_t>(word) : metadata.codes[word];
  };
  out.clear();
  const uint64_t begin =
      sizeof(CacheHeader) + record.offset + uint64_t{record.length} * state_->header.token_bytes;
  State* state = state_.get();
  ColumnWords words(
      begin, record.column_bytes,
      [state](uint64_t offset, std::span<std::byte> bytes) { state->read_at(offset, bytes); });
  for (const ColumnSpec& column : metadata.columns) {
    uint64_t count = column.form == ColumnForm::vector ? static_cast<uint64_t>(metadata.width) : 1;
    if (column.form == ColumnForm::ragged) {
      if (words.words_left() == 0) fail(" has too few values");
      count = words.next();
    }
    if (count > words.words_left()) fail(" has too few values");
    if (column.type == ColumnType::real) {
      for (float& value : out.add_reals(static_cast<int64_t>(count))) {
        value = std::bit_cast<float>(words.next());
        if (!std::isfinite(value)) fail(" has a value that is not finite");
      }
      continue;
    }
    for (int32_t& value : out.add_integers(static_cast<int64_t>(count))) {
      const uint32_t word = words.next();
      value = column.type == ColumnType::label ? id_of(word) : std::bit_cast<int32_t>(word);
    }
  }
  if (words.words_left() != 0) fail(" has too many values");
  if (words.checksum().folded() != record.column_checksum) fail(" does not match its checksum");
}

TokenCache open_or_build_token_cache(const std::string& path, const CacheSpec& spec,
                                     const EncodeFn& encode, const BuildHooks& hooks) {
  check_spec(spec);
  const std::string key = cache_key(spec, hooks);  // data that cannot be read are an error
  try {
    return TokenCache::open(path, spec, key);
  } catch (const Error& error) {
    // Missing, damaged or of other data: build it. Whatever stands in the way of that says so
    // itself.
    if (error.code() != ErrorCode::io && error.code() != ErrorCode::bad_data) throw;
  }
  build_token_cache(path, spec, key, encode, hooks);
  return TokenCache::open(path, spec, key);
}

}  // namespace snug::data
