// SPDX-License-Identifier: Apache-2.0
// Checksums, keys and metadata of token cache files.
#include "data/cache_format.h"

#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/source.h"
#include "io/file_hash.h"
#include "io/json_file.h"

namespace snug::data {
namespace {

std::string hex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

Error damaged(const std::string& where) {
  return Error(ErrorCode::bad_data, where, "the metadata of the token cache are damaged",
               "delete the file");
}

void append_field(std::string& text, const std::string& value) {
  // The length in front keeps "ab" + "c" apart from "a" + "bc".
  text += std::to_string(value.size()) + ":" + value;
}

int64_t count_at(const io::JsonValue& object, const char* name) {
  return object.at(name).as_int(0);
}

std::vector<int64_t> counts_at(const io::JsonValue& object, const char* name,
                               int64_t most = std::numeric_limits<int64_t>::max()) {
  const io::JsonValue list = object.at(name);
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < list.size(); ++i) counts.push_back(list.at(i).as_int(0, most));
  return counts;
}

template <class Enum>
Enum enum_at(const io::JsonValue& object, const char* name, Enum last) {
  return static_cast<Enum>(object.at(name).as_int(0, static_cast<int64_t>(last)));
}

std::vector<ColumnSpec> columns_at(const io::JsonValue& object) {
  const io::JsonValue list = object.at("columns");
  std::vector<ColumnSpec> columns;
  for (int64_t i = 0; i < list.size(); ++i) {
    const io::JsonValue each = list.at(i);
    columns.push_back({.name = each.get_string("name"),
                       .form = enum_at(each, "form", ColumnForm::ragged),
                       .type = enum_at(each, "type", ColumnType::real),
                       .is_of_label = each.get_bool("is_of_label")});
  }
  return columns;
}

std::vector<int32_t> codes_at(const io::JsonValue& object, int64_t labels) {
  std::vector<int32_t> codes;
  for (const int64_t code : counts_at(object, "codes", labels - 1))
    codes.push_back(static_cast<int32_t>(code));
  return codes;
}

}  // namespace

void Checksum::add(std::span<const std::byte> bytes) {
  // Every step is a bijection of the state for a given word, and of the word for a given state.
  const auto mix = [this](uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 29;
  };
  uint64_t word = 0;
  size_t at = 0;
  for (; at + sizeof(word) <= bytes.size(); at += sizeof(word)) {
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    mix(word);
  }
  if (at < bytes.size()) {
    word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    mix(word);
    mix(bytes.size() - at);
  }
}

uint64_t header_checksum(const CacheHeader& header) {
  Checksum checksum;
  checksum.add(bytes_of(header).first(offsetof(CacheHeader, header_checksum)));
  return checksum.value();
}

std::string cache_key(const CacheSpec& spec, const BuildHooks& hooks) {
  std::string text = "cache " + std::to_string(kCacheVersion) + ";";
  for (const std::string& file : spec.files) {
    append_field(text, file);
    append_field(text, io::sha256_of_file(file, [&](int64_t done, int64_t total) {
                   check_cancelled(hooks.cancel, file);
                   if (hooks.comparing) hooks.comparing(done, total);
                 }));
  }
  append_field(text, spec.schema.text_column);
  append_field(text, spec.schema.text_pair_column);
  append_field(text, spec.schema.label_column);
  append_field(text, spec.schema.weight_column);
  append_field(text, std::to_string(static_cast<int>(spec.schema.delimiter)));
  append_field(text,
               std::to_string(static_cast<int>(spec.overlong)) + "," + std::to_string(spec.stride));
  append_field(text, std::to_string(static_cast<int>(spec.bad_rows)) + "," +
                         std::to_string(static_cast<int>(spec.label_use)) + "," +
                         std::to_string(spec.max_seq_length) + "," +
                         std::to_string(spec.vocab_size) + "," + std::to_string(spec.width));
  append_field(text, spec.form->name);
  if (!spec.schema.class_names) append_field(text, "numbers of classes");
  append_field(text, spec.tokenizer_fingerprint);
  if (spec.label_use == LabelUse::known) {
    for (const std::string& name : spec.known_labels.names()) append_field(text, name);
  }
  if (spec.label_use == LabelUse::find) {
    append_field(text,
                 std::to_string(spec.rule.is_trained) + "," + std::to_string(spec.rule.count));
    for (const std::string& name : spec.rule.model) append_field(text, name);
    append_field(text, spec.rule.order_key);
    for (const std::string& name : spec.rule.order) append_field(text, name);
  }
  Checksum first;
  first.add(std::as_bytes(std::span(text)));
  Checksum second;
  second.add(bytes_of(first));
  second.add(std::as_bytes(std::span(text)));
  return hex(first.value()) + hex(second.value());
}

std::string to_json(const CacheMetadata& metadata) {
  const DataReport& report = metadata.report;
  nlohmann::json columns = nlohmann::json::array();
  for (const ColumnSpec& column : metadata.columns) {
    columns.push_back({{"name", column.name},
                       {"form", static_cast<int>(column.form)},
                       {"type", static_cast<int>(column.type)},
                       {"is_of_label", column.is_of_label}});
  }
  const nlohmann::json json = {{"key", metadata.key},
                               {"columns", columns},
                               {"width", metadata.width},
                               {"codes", metadata.codes},
                               {"labels", metadata.labels.names()},
                               {"label_source", static_cast<int>(metadata.label_source)},
                               {"report",
                                {{"rows_read", report.rows_read},
                                 {"kept", report.kept},
                                 {"truncated", report.truncated},
                                 {"dropped_empty", report.dropped_empty},
                                 {"dropped_long", report.dropped_long},
                                 {"windowed", report.windowed},
                                 {"more_windows", report.more_windows},
                                 {"unlabelled", report.unlabelled},
                                 {"bad", report.bad},
                                 {"invisible", report.invisible},
                                 {"quoted", report.quoted},
                                 {"doubled_quotes", report.doubled_quotes},
                                 {"tokens", report.tokens},
                                 {"unknown_tokens", report.unknown_tokens},
                                 {"max_length", report.max_length},
                                 {"length_counts", report.length_counts},
                                 {"label_counts", report.label_counts},
                                 {"bad_examples", report.bad_examples},
                                 {"lost_labels", report.lost_labels}}}};
  // Paths in bad_examples and labels need not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

CacheMetadata metadata_from_json(const std::string& text, const std::string& where) {
  try {
    // The report counts rows by length and by label, and keeps a few texts.
    constexpr int64_t kMostValues = int64_t{kMaxSequenceLength} + 3 * kMaxLabels + 200;
    const io::JsonValue json =
        io::parse_json(text, where, {.max_depth = 4, .max_values = kMostValues});
    const io::JsonValue in = json.at("report");
    CacheMetadata metadata{.key = json.get_string("key"),
                           .columns = columns_at(json),
                           .width = count_at(json, "width"),
                           .codes = {},
                           .labels = Labels::from_names(json.at("labels").as_strings()),
                           .label_source = enum_at(json, "label_source", LabelSource::ids),
                           .report = {}};
    metadata.codes = codes_at(json, metadata.labels.size());
    DataReport& report = metadata.report;
    report.rows_read = count_at(in, "rows_read");
    report.kept = count_at(in, "kept");
    report.truncated = count_at(in, "truncated");
    report.dropped_empty = count_at(in, "dropped_empty");
    report.dropped_long = count_at(in, "dropped_long");
    report.windowed = count_at(in, "windowed");
    report.more_windows = count_at(in, "more_windows");
    report.unlabelled = count_at(in, "unlabelled");
    report.bad = count_at(in, "bad");
    report.invisible = count_at(in, "invisible");
    report.quoted = count_at(in, "quoted");
    report.doubled_quotes = count_at(in, "doubled_quotes");
    report.tokens = count_at(in, "tokens");
    report.unknown_tokens = count_at(in, "unknown_tokens");
    report.max_length = static_cast<int32_t>(in.at("max_length").as_int(0, kMaxSequenceLength));
    report.length_counts = counts_at(in, "length_counts");
    report.label_counts = counts_at(in, "label_counts");
    report.bad_examples = in.at("bad_examples").as_strings();
    report.lost_labels = in.at("lost_labels").as_strings();
    if (report.label_counts.size() != metadata.labels.names().size()) throw damaged(where);
    return metadata;
  } catch (const Error&) {
    throw damaged(where);
  }
}

std::vector<ColumnSpec> columns_of(const CacheSpec& spec) {
  std::vector<ColumnSpec> columns;
  for (const ColumnSpec& column : spec.form->columns) {
    if (!column.is_of_label || spec.label_use != LabelUse::ignore) columns.push_back(column);
  }
  if (!spec.schema.weight_column.empty())
    columns.push_back({.name = kWeightColumn, .type = ColumnType::real, .is_of_label = false});
  if (spec.overlong == Overlong::window)
    columns.push_back({.name = kWindowColumn, .type = ColumnType::integer, .is_of_label = false});
  return columns;
}

void check_spec(const CacheSpec& spec) {
  if (spec.files.empty()) throw Error(ErrorCode::bad_config, "train_file", "no data file is given");
  if (spec.max_seq_length < 1 || spec.max_seq_length > kMaxSequenceLength) {
    throw Error(ErrorCode::bad_config, "max_seq_length",
                std::to_string(spec.max_seq_length) + " is out of range",
                "use a number from 1 to " + std::to_string(kMaxSequenceLength));
  }
  if (spec.vocab_size < 1) {
    throw Error(ErrorCode::bad_config, "vocab_size",
                std::to_string(spec.vocab_size) + " is out of range");
  }
}

}  // namespace snug::data
