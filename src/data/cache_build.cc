// SPDX-License-Identifier: Apache-2.0
// Builds a token cache: one pass over the rows, tokens straight to the file, the index to a file
// beside it. Holds one row, the labels and fixed buffers. Label ids are provisional during the pass
// (the final order needs all names) and are replaced while the index is copied behind the tokens.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "data/cache_format.h"
#include "data/cache_writer.h"
#include "data/source.h"

namespace snug::data {
namespace {

constexpr int64_t kProgressRows = 1000;
constexpr size_t kCopyRecords = 1024;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

class CacheBuilder {
 public:
  CacheBuilder(const std::string& path, const CacheSpec& spec, const EncodeFn& encode,
               const BuildHooks& hooks)
      : spec_(spec),
        encode_(encode),
        hooks_(hooks),
        temporary_(path),
        tokens_(temporary_.duplicate_fd(), temporary_.path(), sizeof(CacheHeader)),
        index_(open_nameless(path), path),
        token_bytes_(token_bytes_for(spec.vocab_size)),
        known_(spec.known_labels) {
    log_.policy = spec.bad_rows;
    report_.length_counts.assign(static_cast<size_t>(spec.max_seq_length) + 1, 0);
    if (spec.label_use == LabelUse::known) {
      report_.label_counts.assign(spec.known_labels.names().size(), 0);
    }
  }

  DataReport run() {
    const std::string key = cache_key(spec_);
    for (const std::string& file : spec_.files) progress_.total_bytes += stamp_of(file).bytes;
    for (size_t i = 0; i < spec_.files.size(); ++i) read_file(static_cast<uint32_t>(i));
    if (cache_key(spec_) != key) {
      throw Error(ErrorCode::io, spec_.files.front(), "a data file changed while it was read",
                  "run again");
    }
    finish_report();
    LabelMap map;
    if (spec_.label_use == LabelUse::find) map = final_labels();
    if (spec_.label_use == LabelUse::known) map.labels = spec_.known_labels;
    reorder_counts(map);
    write_rest(key, map);
    if (hooks_.progress) hooks_.progress(progress_);
    return report_;
  }

 private:
  void read_file(uint32_t file) {
    RowSchema schema = spec_.schema;
    if (spec_.label_use == LabelUse::ignore) {
      schema.label_column.clear();
      schema.needs_label = false;
    }
    const std::unique_ptr<RowReader> reader = open_rows(spec_.files[file], schema, log_);
    const int64_t bytes_before = progress_.bytes_read;
    Row row;
    while (reader->next(row)) {
      ++good_rows_;
      take(row, file);
      progress_.bytes_read = bytes_before + reader->bytes_read();
      if (hooks_.cancel != nullptr && hooks_.cancel->load(std::memory_order_relaxed)) {
        throw Error(ErrorCode::cancelled, spec_.files[file], "reading the data was cancelled");
      }
      progress_.rows = good_rows_ + log_.count;
      if (hooks_.progress && good_rows_ % kProgressRows == 0) hooks_.progress(progress_);
    }
    progress_.bytes_read = bytes_before + reader->total_bytes();
    if (columns_.empty()) columns_ = reader->columns();
  }

  void take(const Row& row, uint32_t file) {
    const bool is_prediction = spec_.label_use == LabelUse::ignore;
    const bool has_pair = !spec_.schema.text_pair_column.empty();
    if (!is_prediction && is_blank(row.text) && (!has_pair || is_blank(row.pair))) {
      ++report_.dropped_empty;
      return;
    }
    if (!is_prediction && !row.label) {
      ++report_.unlabelled;
      return;
    }
    encoded_.ids.clear();
    encoded_.type_ids.clear();
    encoded_.truncated = false;
    encode_(row.text, has_pair ? &row.pair : nullptr, encoded_);
    if (!is_prediction && encoded_.ids.empty()) {
      ++report_.dropped_empty;
      return;
    }
    int32_t label = kIgnoredLabel;
    if (!is_prediction) {
      try {
        label = label_id(row, file);
      } catch (const RowError& error) {
        ++label_errors_;
        log_.report(error);
        return;
      }
      ++report_.label_counts[static_cast<size_t>(label)];
    }
    write_row(row, file, label);
  }

  int32_t label_id(const Row& row, uint32_t file) {
    const std::string where = place_of(spec_.files[file], row.line);
    if (spec_.label_use == LabelUse::known) {
      if (const auto id = known_.find(*row.label, where)) return *id;
      const Error error = unseen_label(where, *row.label, spec_.known_labels);
      throw RowError(error);
    }
    int32_t id = 0;
    try {
      id = finder_.add(*row.label, where);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_data) throw RowError(error);
      throw;
    }
    if (static_cast<size_t>(id) == report_.label_counts.size()) report_.label_counts.push_back(0);
    return id;
  }

  // Tokens of type 0; a row's type ids are zeros, then ones.
  [[nodiscard]] uint32_t first_segment() const {
    const auto& types = encoded_.type_ids;
    if (types.empty()) return static_cast<uint32_t>(encoded_.ids.size());
    SNUG_CHECK(types.size() == encoded_.ids.size(), "type ids and ids differ in number");
    const auto ones =
        std::find_if(types.begin(), types.end(), [](int32_t type) { return type != 0; });
    SNUG_CHECK(std::all_of(ones, types.end(), [](int32_t type) { return type == 1; }),
               "type ids must be zeros, then ones");
    return static_cast<uint32_t>(ones - types.begin());
  }

  void write_row(const Row& row, uint32_t file, int32_t label) {
    const std::vector<int32_t>& ids = encoded_.ids;
    SNUG_CHECK(ids.size() <= static_cast<size_t>(spec_.max_seq_length),
               "a row longer than max_seq_length");
    for (const int32_t id : ids)
      SNUG_CHECK(id >= 0 && id < spec_.vocab_size, "a token id outside the vocabulary");
    std::span<const std::byte> bytes = std::as_bytes(std::span(ids));
    if (token_bytes_ == 2) {
      narrow_.assign(ids.size(), 0);
      std::transform(ids.begin(), ids.end(), narrow_.begin(),
                     [](int32_t id) { return static_cast<uint16_t>(id); });
      bytes = std::as_bytes(std::span(narrow_));
    }
    Checksum checksum;
    checksum.add(bytes);
    const IndexRecord record{
        .offset = static_cast<uint64_t>(tokens_.position()) - sizeof(CacheHeader),
        .line = static_cast<uint64_t>(row.line),
        .length = static_cast<uint32_t>(ids.size()),
        .first_segment = first_segment(),
        .label = label,
        .file = file,
        .checksum = checksum.folded(),
        .reserved = 0};
    tokens_.write(bytes);
    index_.write(bytes_of(record));
    ++report_.kept;
    report_.truncated += encoded_.truncated ? 1 : 0;
    report_.tokens += static_cast<int64_t>(ids.size());
    report_.max_length = std::max(report_.max_length, static_cast<int32_t>(ids.size()));
    ++report_.length_counts[ids.size()];
  }

  void finish_report() {
    report_.bad = log_.count;
    report_.rows_read = good_rows_ - label_errors_ + log_.count;
    progress_.rows = report_.rows_read;
    report_.bad_examples = log_.examples;
    report_.length_counts.resize(static_cast<size_t>(report_.max_length) + 1);
    if (report_.kept > 0) return;
    const std::string& where = spec_.files.front();
    if (report_.rows_read == 0) throw Error(ErrorCode::bad_data, where, "the file holds no rows");
    const bool knows_label =
        std::find(columns_.begin(), columns_.end(), spec_.schema.label_column) != columns_.end();
    if (report_.unlabelled > 0 && !knows_label) {
      throw missing_column(where, spec_.schema.label_column, "label_column", columns_);
    }
    std::string text = "no row can be used: of " + std::to_string(report_.rows_read) + " rows " +
                       std::to_string(report_.unlabelled) + " have no label, " +
                       std::to_string(report_.dropped_empty) + " are empty and " +
                       std::to_string(report_.bad) + " are bad";
    if (!report_.bad_examples.empty()) text += ", such as " + report_.bad_examples.front();
    throw Error(ErrorCode::bad_data, where, text, "check text_column and label_column");
  }

  /// The map from the order of first sight.
  [[nodiscard]] LabelMap final_labels() const {
    const LabelFinder::Result found = finder_.finish();
    LabelMap map = map_labels(spec_.rule, labels_of_text(found.labels), spec_.files.front());
    std::vector<int32_t> id_of;
    for (const int32_t position : found.final_id)
      id_of.push_back(map.id_of[static_cast<size_t>(position)]);
    map.id_of = std::move(id_of);
    return map;
  }

  void reorder_counts(const LabelMap& map) {
    if (map.id_of.empty()) return;
    std::vector<int64_t> counts(static_cast<size_t>(map.labels.size()));
    for (size_t id = 0; id < map.id_of.size(); ++id)
      counts[static_cast<size_t>(map.id_of[id])] = report_.label_counts[id];
    report_.label_counts = std::move(counts);
  }

  void write_rest(const std::string& key, const LabelMap& map) {
    CacheHeader header;
    header.rows = static_cast<uint64_t>(report_.kept);
    header.tokens_bytes = static_cast<uint64_t>(tokens_.position()) - sizeof(CacheHeader);
    header.token_bytes = token_bytes_;
    header.max_seq_length = static_cast<uint32_t>(spec_.max_seq_length);
    header.vocab_size = static_cast<uint32_t>(spec_.vocab_size);
    header.index_checksum = copy_index(map.id_of);
    const std::string metadata =
        to_json({.key = key, .labels = map.labels, .label_source = map.source, .report = report_});
    SNUG_CHECK(metadata.size() <= kMaxMetadataBytes, "metadata too large");
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(metadata)));
    header.metadata_bytes = metadata.size();
    header.metadata_checksum = checksum.value();
    header.header_checksum = header_checksum(header);
    tokens_.write(std::as_bytes(std::span(metadata)));
    tokens_.sync();
    tokens_.write_at(0, bytes_of(header));
    tokens_.sync();
    temporary_.commit();
  }

  uint64_t copy_index(const std::vector<int32_t>& id_of) {
    index_.flush();
    std::vector<IndexRecord> records(kCopyRecords);
    Checksum checksum;
    for (int64_t row = 0; row < report_.kept; row += static_cast<int64_t>(kCopyRecords)) {
      records.resize(
          static_cast<size_t>(std::min(report_.kept - row, static_cast<int64_t>(kCopyRecords))));
      index_.read_at(row * static_cast<int64_t>(sizeof(IndexRecord)),
                     std::as_writable_bytes(std::span(records)));
      for (IndexRecord& record : records) {
        if (!id_of.empty()) record.label = id_of[static_cast<size_t>(record.label)];
      }
      checksum.add(std::as_bytes(std::span(records)));
      tokens_.write(std::as_bytes(std::span(records)));
    }
    return checksum.value();
  }

  const CacheSpec& spec_;
  const EncodeFn& encode_;
  const BuildHooks& hooks_;
  TemporaryFile temporary_;
  BufferedFile tokens_;
  BufferedFile index_;
  uint32_t token_bytes_;
  BadRowLog log_{};
  LabelFinder finder_;
  LabelLookup known_;
  DataReport report_;
  BuildProgress progress_;
  int64_t good_rows_ = 0;     // that the readers returned
  int64_t label_errors_ = 0;  // of those, bad for their label
  std::vector<std::string> columns_;
  EncodedRow encoded_;
  std::vector<uint16_t> narrow_;
};

}  // namespace

DataReport build_token_cache(const std::string& path, const CacheSpec& spec, const EncodeFn& encode,
                             const BuildHooks& hooks) {
  check_spec(spec);
  return CacheBuilder(path, spec, encode, hooks).run();
}

}  // namespace snug::data
