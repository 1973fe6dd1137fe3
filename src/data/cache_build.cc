// SPDX-License-Identifier: Apache-2.0
// Builds a token cache: one pass over the rows, tokens straight to the file, the index to a file
// beside it. Holds one row, the labels and fixed buffers. Label ids are provisional during the
// pass, since the final order needs all names; the metadata say which is which.
#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "data/cache_format.h"
#include "data/invisible.h"
#include "data/label_places.h"
#include "data/label_survey.h"
#include "data/rows.h"
#include "data/source.h"
#include "io/buffered_file.h"

namespace snug::data {
namespace {

constexpr int64_t kProgressRows = 1000;
constexpr size_t kCopyRecords = 1024;
constexpr size_t kMostDroppedLabels = 256;  // that are remembered
constexpr size_t kLostExamples = 5;

bool has_vector(const CacheSpec& spec) {
  const auto& columns = spec.form->columns;
  return std::any_of(columns.begin(), columns.end(),
                     [](const ColumnSpec& each) { return each.form == ColumnForm::vector; });
}

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
        temporary_(path, {.what = "another process is writing this token cache",
                          .hint = "wait for it, or use another output_dir"}),
        tokens_(temporary_.duplicate(), sizeof(CacheHeader)),
        index_(io::open_nameless(path)),
        token_bytes_(token_bytes_for(spec.vocab_size)),
        known_(spec.known_labels),
        places_(spec, [this](const std::string& name,
                             const std::string& where) { return label_id(name, where); }),
        columns_of_file_(columns_of(spec)),
        drafts_(spec.form->columns.size()),
        width_(has_vector(spec) ? spec.width : 0) {
    log_.policy = spec.bad_rows;
    report_.length_counts.assign(spec.max_seq_length + 1, 0);
    if (spec.label_use == LabelUse::known) {
      report_.label_counts.assign(spec.known_labels.names().size(), 0);
    }
  }

  DataReport run(const std::string& key) {
    for (const std::string& file : spec_.files) progress_.total_bytes += io::bytes_of_file(file);
    for (size_t i = 0; i < spec_.files.size(); ++i) read_file(static_cast<uint32_t>(i));
    if (cache_key(spec_, hooks_) != key) {
      throw Error(ErrorCode::io, spec_.files.front(), "a data file changed while it was read",
                  "run again");
    }
    finish_report();
    LabelMap map;
    if (spec_.label_use == LabelUse::find && has_labels()) map = final_labels();
    if (spec_.label_use == LabelUse::known) {
      map.labels = spec_.known_labels;
      map.source = known_.source();
    }
    reorder_counts(map);
    write_rest(key, map);
    if (hooks_.progress) hooks_.progress(progress_);
    return report_;
  }

 private:
  [[nodiscard]] RowSchema schema() const {
    RowSchema schema = spec_.schema;
    schema.text_form = spec_.form->has_words ? TextForm::words : TextForm::text;
    if (spec_.label_use == LabelUse::ignore) {
      schema.label_column.clear();
      schema.needs_label = false;
    }
    return schema;
  }

  void read_file(uint32_t file) {
    const std::unique_ptr<RowReader> reader = open_rows(spec_.files[file], schema(), log_);
    const int64_t bytes_before = progress_.bytes_read;
    Row row;
    while (reader->next(row)) {
      ++good_rows_;
      take(row, file);
      progress_.bytes_read = bytes_before + reader->bytes_read();
      check_cancelled(hooks_.cancel, spec_.files[file]);
      progress_.rows = good_rows_ + log_.count;
      if (hooks_.progress && good_rows_ % kProgressRows == 0) hooks_.progress(progress_);
    }
    progress_.bytes_read = bytes_before + reader->total_bytes();
    if (columns_.empty()) columns_ = reader->columns();
    check_label_column(*reader, file);
  }

  // That a file has the other columns is seen when it is opened, or at its first object; of JSON
  // without a label every row would count as one that nobody has labelled.
  void check_label_column(const RowReader& reader, uint32_t file) const {
    const std::string& label = spec_.schema.label_column;
    const auto has = [&](const std::vector<std::string>& columns) {
      return std::find(columns.begin(), columns.end(), label) != columns.end();
    };
    if (spec_.label_use == LabelUse::ignore || reader.columns().empty() || file == 0) return;
    const bool is_there = has(reader.columns());
    if (is_there == has(columns_)) return;
    const std::string& lacking = spec_.files[is_there ? 0 : file];
    throw Error(ErrorCode::bad_config, io::place_of(lacking, 1),
                "the first row has no column '" + label + "', and that of " +
                    spec_.files[is_there ? file : 0] +
                    " has: files of one run have the same "
                    "columns",
                "give every row a label (null where it has none), or omit the file");
  }

  [[nodiscard]] bool is_empty(const Row& row) const {
    const bool has_pair = !spec_.schema.text_pair_column.empty();
    const bool has_text = spec_.form->has_words ? !std::all_of(row.words.begin(), row.words.end(),
                                                               [](auto& w) { return is_blank(w); })
                                                : !is_blank(row.text);
    return !has_text && (!has_pair || is_blank(row.pair));
  }

  void count_oddities(const Row& row) {
    report_.invisible += !is_empty(row) && is_invisible(row) ? 1 : 0;
    report_.quoted += row.quotes != Quotes::none ? 1 : 0;
    report_.doubled_quotes += row.quotes == Quotes::doubled ? 1 : 0;
  }

  void take(const Row& row, uint32_t file) {
    const bool is_prediction = spec_.label_use == LabelUse::ignore;
    if (!is_prediction && is_empty(row)) {
      ++report_.dropped_empty;
      remember_label(row);
      return;
    }
    if (!is_prediction && !row.label) {
      ++report_.unlabelled;
      return;
    }
    int64_t window = 0;
    do {
      encode(row, window);
      if (!is_prediction && encoded_.ids.empty()) {
        ++report_.dropped_empty;
        remember_label(row);
        return;
      }
      if (encoded_.truncated && spec_.overlong == Overlong::error) refuse_length(row, file);
      if (encoded_.truncated && spec_.overlong == Overlong::drop) {
        ++report_.dropped_long;
        remember_label(row);
        return;
      }
      try {
        form_columns(row, window, place_of_row(spec_.files[file], row));
      } catch (const RowError& error) {
        ++label_errors_;
        log_.report(error);
        return;
      }
      write_row(row, file);
      if (window == 0) count_oddities(row);
      report_.windowed += window == 1 ? 1 : 0;
      report_.more_windows += window > 0 ? 1 : 0;
      ++window;
    } while (encoded_.has_more);
  }

  // Remembers the label of a dropped row as the file spells it.
  void remember_label(const Row& row) {
    if (spec_.label_use != LabelUse::find || !has_labels() || !row.label) return;
    for (const std::string& label : row.label->items) {
      if (dropped_labels_.size() < kMostDroppedLabels && label.size() <= kMaxLabelBytes)
        dropped_labels_.insert(label);
    }
  }

  void encode(const Row& row, int64_t window) {
    encoded_.ids.clear();
    encoded_.type_ids.clear();
    encoded_.words.clear();
    encoded_.truncated = false;
    encoded_.has_more = false;
    const bool has_pair = !spec_.schema.text_pair_column.empty();
    encode_({.text = row.text,
             .words = row.words,
             .pair = has_pair ? &row.pair : nullptr,
             .window = window},
            encoded_);
  }

  [[noreturn]] void refuse_length(const Row& row, uint32_t file) const {
    throw Error(ErrorCode::bad_data, place_of_row(spec_.files[file], row),
                "the text has more than max_seq_length " + std::to_string(spec_.max_seq_length) +
                    " tokens, and overlong is error",
                "raise max_seq_length, shorten the text, or set overlong to truncate, drop, "
                "tail, head_tail or window");
  }

  // The columns as words of the file, in words_.
  void form_columns(const Row& row, int64_t window, const std::string& where) {
    for (ColumnDraft& draft : drafts_) {
      draft.names.clear();
      draft.names_are_ids = false;
      draft.places.reset();
      draft.integers.clear();
      draft.reals.clear();
    }
    try {
      spec_.form->read(row, encoded_, where, drafts_);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_data) throw RowError(error);
      throw;
    }
    places_.check_form(drafts_, where);
    words_.clear();
    seen_.clear();
    for (size_t i = 0; i < drafts_.size(); ++i) {
      const ColumnSpec& column = spec_.form->columns[i];
      if (column.is_of_label && spec_.label_use == LabelUse::ignore) continue;
      append_column(column, drafts_[i], where);
    }
    if (!spec_.schema.weight_column.empty()) words_.push_back(std::bit_cast<uint32_t>(row.weight));
    if (spec_.overlong == Overlong::window) words_.push_back(static_cast<uint32_t>(window));
    if (window > 0) return;  // its labels are counted
    for (const int32_t id : seen_) ++report_.label_counts[id];
  }

  void append_column(const ColumnSpec& column, const ColumnDraft& draft, const std::string& where) {
    if (draft.places) {
      append_places(column, *draft.places, where);
      return;
    }
    const size_t count = column.type == ColumnType::label  ? draft.names.size()
                         : column.type == ColumnType::real ? draft.reals.size()
                                                           : draft.integers.size();
    if (column.form == ColumnForm::ragged) words_.push_back(static_cast<uint32_t>(count));
    if (column.form == ColumnForm::scalar) SNUG_CHECK(count == 1, "a scalar has one value");
    if (column.form == ColumnForm::vector) check_width(column, static_cast<int64_t>(count), where);
    for (size_t i = 0; i < count; ++i) {
      switch (column.type) {
        case ColumnType::label:
          seen_.push_back(label_id(draft.names[i], where));
          words_.push_back(static_cast<uint32_t>(seen_.back()));
          break;
        case ColumnType::integer:
          words_.push_back(std::bit_cast<uint32_t>(draft.integers[i]));
          break;
        case ColumnType::real:
          words_.push_back(std::bit_cast<uint32_t>(draft.reals[i]));
          break;
      }
    }
  }

  // Labels that a row gives by their places in a list of all of them.
  void append_places(const ColumnSpec& column, const LabelPlaces& places,
                     const std::string& where) {
    SNUG_CHECK(column.type == ColumnType::label && column.form == ColumnForm::ragged, "places");
    const std::span<const int32_t> codes = places_.codes(places.count, where);
    words_.push_back(static_cast<uint32_t>(places.taken.size()));
    for (const int32_t place : places.taken) {
      seen_.push_back(codes[static_cast<size_t>(place)]);
      words_.push_back(static_cast<uint32_t>(seen_.back()));
    }
  }

  void check_width(const ColumnSpec& column, int64_t count, const std::string& where) {
    if (width_ == 0) width_ = count;
    if (count == width_) return;
    throw RowError(ErrorCode::bad_data, where,
                   "the column '" + column.name + "' has " + std::to_string(count) +
                       " numbers, not " + std::to_string(width_) +
                       (spec_.width > 0 ? " as the model" : " as the rows before"),
                   "give every row the same number of them, or set bad_rows to skip");
  }

  // At the first unknown label: where no label of the files is known the rows are not bad, the file
  // is another's. Of numbers that are ids but for one (1, 2, 3 for 0, 1, 2) none is trusted, unless
  // the others may be skipped.
  void refuse_unlike_labels(const std::string& where) {
    if (std::exchange(has_looked_at_labels_, true)) return;
    const NumericNames numbers(spec_.known_labels.names());
    const auto is_known = [&](std::string_view label) {
      return spec_.bad_rows == BadRows::skip
                 ? known_.knows(label, where)
                 : find_class(spec_.known_labels, numbers, label).has_value();
    };
    const auto labels = labels_of_files(spec_.files, schema(), hooks_.cancel);
    if (!labels) return;
    labels_of_files_ = list_labels(labels->names());
    if (std::none_of(labels->names().begin(), labels->names().end(), is_known))
      throw unlike_labels(where, *labels, spec_.known_labels, spec_.rule.is_trained);
  }

  int32_t label_id(const std::string& label, const std::string& where) {
    if (spec_.label_use == LabelUse::known) {
      if (const auto id = known_.find(label, where)) return *id;
      refuse_unlike_labels(where);
      const Error error = unseen_label(where, label,
                                       {.known = spec_.known_labels,
                                        .is_trained = spec_.rule.is_trained,
                                        .of_files = labels_of_files_});
      throw RowError(error);
    }
    int32_t id = 0;
    try {
      id = finder_.add(label, where);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_data) throw RowError(error);
      throw;
    }
    if (std::cmp_equal(id, report_.label_counts.size())) report_.label_counts.push_back(0);
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

  void write_row(const Row& row, uint32_t file) {
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
    const std::span<const std::byte> columns = std::as_bytes(std::span(std::as_const(words_)));
    Checksum column_checksum;
    column_checksum.add(columns);
    const IndexRecord record{
        .offset = static_cast<uint64_t>(tokens_.position()) - sizeof(CacheHeader),
        .line = static_cast<uint64_t>(row.line),
        .length = static_cast<uint32_t>(ids.size()),
        .first_segment = first_segment(),
        .column_bytes = static_cast<uint32_t>(columns.size()),
        .file = file,
        .checksum = checksum.folded(),
        .column_checksum = column_checksum.folded()};
    tokens_.write(bytes);
    tokens_.write(columns);
    index_.write(bytes_of(record));
    ++report_.kept;
    report_.truncated += encoded_.truncated ? 1 : 0;
    report_.tokens += static_cast<int64_t>(ids.size());
    report_.unknown_tokens += std::count(ids.begin(), ids.end(), spec_.unknown_id);
    report_.max_length = std::max(report_.max_length, static_cast<int32_t>(ids.size()));
    ++report_.length_counts[ids.size()];
  }

  void finish_report() {
    report_.bad = log_.count;
    report_.rows_read = good_rows_ - label_errors_ + log_.count;
    progress_.rows = report_.rows_read;
    report_.bad_examples = log_.examples;
    report_.length_counts.resize(report_.max_length + 1);
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
    if (report_.dropped_long > 0)
      text += ", " + std::to_string(report_.dropped_long) + " are too long (overlong: drop)";
    if (!report_.bad_examples.empty()) text += ", such as " + report_.bad_examples.front();
    throw Error(ErrorCode::bad_data, where, text, "check text_column and label_column");
  }

  [[nodiscard]] bool has_labels() const {
    return std::any_of(columns_of_file_.begin(), columns_of_file_.end(),
                       [](const ColumnSpec& each) { return each.type == ColumnType::label; });
  }

  /// The map from the order of first sight.
  [[nodiscard]] LabelMap final_labels() {
    const LabelFinder::Result found = finder_.finish();
    for (const std::string& name : found.labels.names()) dropped_labels_.erase(name);
    for (const std::string& name : dropped_labels_) {
      if (report_.lost_labels.size() < kLostExamples) report_.lost_labels.push_back(name);
    }
    if (found.final_id.empty() && !spec_.rule.is_trained)
      throw Error(ErrorCode::bad_data, spec_.files.front(), "every row has an empty list of labels",
                  "give at least one row a label, or set label_column to the column of the labels");
    LabelMap map = map_labels(spec_.rule, labels_of_text(found.labels), spec_.files.front());
    IndexVector<int32_t> id_of;
    for (const int32_t position : found.final_id) id_of.push_back(map.id_of[position]);
    map.id_of = std::move(id_of);
    return map;
  }

  void reorder_counts(const LabelMap& map) {
    if (spec_.label_use != LabelUse::find) return;
    IndexVector<int64_t> counts(map.labels.size());
    for (size_t id = 0; id < map.id_of.size(); ++id)
      counts[map.id_of[id]] += report_.label_counts[id];  // "1" and "1.0" may be one class
    report_.label_counts = std::move(counts);
  }

  void write_rest(const std::string& key, const LabelMap& map) {
    CacheHeader header;
    header.rows = static_cast<uint64_t>(report_.kept);
    header.tokens_bytes = static_cast<uint64_t>(tokens_.position()) - sizeof(CacheHeader);
    header.token_bytes = token_bytes_;
    header.max_seq_length = static_cast<uint32_t>(spec_.max_seq_length);
    header.vocab_size = static_cast<uint32_t>(spec_.vocab_size);
    header.index_checksum = copy_index();
    const std::string metadata = to_json({.key = key,
                                          .columns = columns_of_file_,
                                          .width = width_,
                                          .codes = map.id_of,
                                          .labels = map.labels,
                                          .label_source = map.source,
                                          .report = report_});
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

  uint64_t copy_index() {
    index_.flush();
    std::vector<IndexRecord> records(kCopyRecords);
    Checksum checksum;
    for (int64_t row = 0; row < report_.kept; row += static_cast<int64_t>(kCopyRecords)) {
      records.resize(
          static_cast<size_t>(std::min(report_.kept - row, static_cast<int64_t>(kCopyRecords))));
      index_.read_at(row * static_cast<int64_t>(sizeof(IndexRecord)),
                     std::as_writable_bytes(std::span(records)));
      checksum.add(std::as_bytes(std::span(records)));
      tokens_.write(std::as_bytes(std::span(records)));
    }
    return checksum.value();
  }

  const CacheSpec& spec_;
  const EncodeFn& encode_;
  const BuildHooks& hooks_;
  io::TemporaryFile temporary_;
  io::BufferedFile tokens_;
  io::BufferedFile index_;
  uint32_t token_bytes_;
  BadRowLog log_{};
  LabelFinder finder_;
  std::set<std::string> dropped_labels_;
  LabelLookup known_;
  PlacesOfLabels places_;
  DataReport report_;
  BuildProgress progress_;
  int64_t good_rows_ = 0;     // that the readers returned
  int64_t label_errors_ = 0;  // of those, bad for their label
  bool has_looked_at_labels_ = false;
  std::string labels_of_files_;  // as a list, once a label was not known
  std::vector<std::string> columns_;
  EncodedRow encoded_;
  std::vector<uint16_t> narrow_;
  std::vector<ColumnSpec> columns_of_file_;
  std::vector<ColumnDraft> drafts_;
  std::vector<uint32_t> words_;  // the columns of a row
  std::vector<int32_t> seen_;    // labels of a row
  int64_t width_;
};

}  // namespace

DataReport build_token_cache(const std::string& path, const CacheSpec& spec, const EncodeFn& encode,
                             const BuildHooks& hooks) {
  check_spec(spec);
  return build_token_cache(path, spec, cache_key(spec, hooks), encode, hooks);
}

DataReport build_token_cache(const std::string& path, const CacheSpec& spec, const std::string& key,
                             const EncodeFn& encode, const BuildHooks& hooks) {
  check_spec(spec);
  return CacheBuilder(path, spec, encode, hooks).run(key);
}

}  // namespace snug::data
