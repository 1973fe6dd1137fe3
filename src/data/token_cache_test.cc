// SPDX-License-Identifier: Apache-2.0
// Token cache: round trip, report, labels, damage at every byte, memory bound, cancellation, full
// disk.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>

#include "data/cache_format.h"
#include "data/data_testing.h"

namespace snug::data {
namespace {

constexpr int32_t kVocabulary = 302;

CacheSpec spec_of(const std::string& file, int32_t max_seq_length = 16) {
  return {.files = {file},
          .max_seq_length = max_seq_length,
          .vocab_size = kVocabulary,
          .tokenizer_fingerprint = "toy"};
}

std::string slurp(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::string text_of(const TokenCache& cache, int64_t row) {
  std::vector<int32_t> ids(64);
  const RowInfo info = cache.read_row(row, ids);
  std::string text;
  for (int32_t i = 0; i < info.length; ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    text += id == 300 ? "<" : id == 301 ? ">" : std::string(1, static_cast<char>(id));
  }
  return text;
}

TEST(TokenCache, rows_come_back_with_labels_lines_and_report) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv",
                                 "text\tlabel\n"
                                 "hello\tzebra\n"
                                 "  \tzebra\n"
                                 "no label\t\n"
                                 "broken\n"
                                 "a long text that is cut\tape\n"
                                 "hi\tzebra\n");
  CacheSpec spec = spec_of(file);
  spec.bad_rows = BadRows::skip;
  const TokenCache cache = open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(16));
  ASSERT_EQ(cache.rows(), 3);
  EXPECT_EQ(cache.labels().names(), (std::vector<std::string>{"ape", "zebra"}));
  EXPECT_EQ(text_of(cache, 0), "<hello>");
  EXPECT_EQ(text_of(cache, 1), "<a long text tha");
  EXPECT_EQ(text_of(cache, 2), "<hi>");
  EXPECT_EQ(label_of(cache, 0), 1);
  EXPECT_EQ(label_of(cache, 1), 0);
  EXPECT_EQ(label_of(cache, 2), 1);
  EXPECT_EQ(cache.info(1).line, 6);
  const DataReport& report = cache.report();
  EXPECT_EQ(report.rows_read, 6);
  EXPECT_EQ(report.kept, 3);
  EXPECT_EQ(report.truncated, 1);
  EXPECT_EQ(report.dropped_empty, 1);
  EXPECT_EQ(report.unlabelled, 1);
  EXPECT_EQ(report.bad, 1);
  EXPECT_EQ(report.tokens, 7 + 16 + 4);
  EXPECT_EQ(report.max_length, 16);
  EXPECT_EQ(report.length_counts.at(7), 1);
  EXPECT_EQ(report.length_counts.size(), 17u);
  EXPECT_EQ(report.label_counts, (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(report.bad_examples.size(), 1u);
  EXPECT_NE(report.bad_examples[0].find("a.tsv:5: 1 fields"), std::string::npos);
  EXPECT_EQ(folder.entries(), 2);  // no temporary file is left
}

TEST(TokenCache, pairs_keep_their_segments_in_both_widths) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.csv", "text,pair,label\nab,cde,0\nx,,1\n");
  for (int32_t vocabulary : {kVocabulary, 65536, 65537, 200000}) {
    CacheSpec spec = spec_of(file);
    spec.schema.text_pair_column = "pair";
    spec.vocab_size = vocabulary;
    const EncodeFn toy = toy_encoder(16);
    const EncodeFn encode = [&](const RowText& row, EncodedRow& out) {
      toy(row, out);
      out.ids.back() = vocabulary - 1;
    };
    const TokenCache cache = open_or_build_token_cache(folder.file("cache"), spec, encode);
    std::vector<int32_t> ids(16);
    const RowInfo info = cache.read_row(0, ids);
    EXPECT_EQ(info.length, 8);
    EXPECT_EQ(info.first_segment, 4);
    EXPECT_EQ(ids[7], vocabulary - 1);
    EXPECT_EQ(cache.info(1).first_segment, 3);
    EXPECT_EQ(cache.info(1).length, 4);
  }
}

TEST(TokenCache, a_second_open_does_not_build_and_any_change_does) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\na\t1\nb\t2\n");
  int encoded = 0;
  const EncodeFn toy = toy_encoder(16);
  const EncodeFn encode = [&](const RowText& row, EncodedRow& out) {
    ++encoded;
    toy(row, out);
  };
  const auto builds = [&](const CacheSpec& spec) {
    encoded = 0;
    (void)open_or_build_token_cache(folder.file("cache"), spec, encode);
    return encoded > 0;
  };
  CacheSpec spec = spec_of(file);
  EXPECT_TRUE(builds(spec));
  EXPECT_FALSE(builds(spec));
  spec.tokenizer_fingerprint = "other";
  EXPECT_TRUE(builds(spec));
  spec.max_seq_length = 17;
  EXPECT_TRUE(builds(spec));
  spec.bad_rows = BadRows::skip;
  EXPECT_TRUE(builds(spec));
  spec.label_use = LabelUse::known;
  spec.known_labels = Labels::from_names({"2", "1"});
  EXPECT_TRUE(builds(spec));
  spec.known_labels = Labels::from_names({"1", "2"});
  EXPECT_TRUE(builds(spec));
  EXPECT_FALSE(builds(spec));
}

// A copy keeps size and time, and so do two writes within a tick of the clock.
TEST(TokenCache, other_bytes_of_equal_size_and_time_are_seen_and_another_time_is_nothing) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\na\t1\nb\t2\n");
  const auto time = std::filesystem::last_write_time(file);
  const CacheSpec spec = spec_of(file);
  const auto labels = [&] {
    const TokenCache cache = open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(16));
    return std::vector<int32_t>{label_of(cache, 0), label_of(cache, 1)};
  };
  EXPECT_EQ(labels(), (std::vector<int32_t>{0, 1}));
  (void)folder.write("a.tsv", "text\tlabel\na\t2\nb\t1\n");
  std::filesystem::last_write_time(file, time);
  EXPECT_EQ(labels(), (std::vector<int32_t>{1, 0}));
  std::filesystem::last_write_time(file, time + std::chrono::seconds(2));
  EXPECT_NO_THROW((void)TokenCache::open(folder.file("cache"), spec));
}

TEST(TokenCache, comparing_a_file_with_its_cache_is_told_and_ends_where_that_is_asked_for) {
  const TemporaryFolder folder;
  const std::string text = "text\tlabel\n" + std::string(1 << 20, 'a') + "\t1\n";
  const CacheSpec spec = spec_of(folder.write("a.tsv", text));
  build_token_cache(folder.file("cache"), spec, toy_encoder(16));
  std::atomic<bool> cancel = false;
  std::vector<int64_t> told;
  const auto size = static_cast<int64_t>(text.size());
  const auto open = [&](int64_t stop_at) {
    told.clear();
    const auto comparing = [&](int64_t done, int64_t total) {
      EXPECT_EQ(total, size);
      told.push_back(done);
      cancel = done >= stop_at;
    };
    return open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(16),
                                     {.comparing = comparing, .cancel = &cancel});
  };
  EXPECT_EQ(open(size + 1).rows(), 1);
  EXPECT_GT(told.size(), 3U);
  EXPECT_EQ(told.back(), size);
  expect_error([&] { (void)open(1); }, ErrorCode::cancelled, "a.tsv");
  EXPECT_EQ(told.size(), 1U);
}

TEST(TokenCache, equal_input_gives_equal_bytes_and_labels_change_the_content_hash) {
  const TemporaryFolder folder;
  const auto a = folder.write("a.tsv", "text\tlabel\na\t1\nb\t2\n");
  const auto b = folder.write("b.tsv", "text\tlabel\na\t1\nb\t3\n");
  build_token_cache(folder.file("1"), spec_of(a), toy_encoder(16));
  build_token_cache(folder.file("2"), spec_of(a), toy_encoder(16));
  EXPECT_EQ(slurp(folder.file("1")), slurp(folder.file("2")));
  build_token_cache(folder.file("3"), spec_of(b), toy_encoder(16));
  EXPECT_NE(TokenCache::open(folder.file("1"), spec_of(a)).content_hash(),
            TokenCache::open(folder.file("3"), spec_of(b)).content_hash());
}

// Opens a cache and reads all of it.
void read_all(const std::string& path, const CacheSpec& spec) {
  const TokenCache cache = TokenCache::open(path, spec);
  std::vector<int32_t> ids(static_cast<size_t>(cache.max_length()));
  RowColumns columns;
  for (int64_t row = 0; row < cache.rows(); ++row) {
    (void)cache.read_row(row, ids);
    cache.read_columns(row, columns);
  }
}

// A vector of the numbers of the label, a ragged column of names as long, and the line of the row.
const RowForm& numbers_and_names() {
  static const RowForm form{
      .name = "several columns",
      .has_words = false,
      .columns = {{.name = "line", .type = ColumnType::integer, .is_of_label = false},
                  {.name = "numbers", .form = ColumnForm::vector, .type = ColumnType::real},
                  {.name = "names", .form = ColumnForm::ragged}},
      .read = [](const Row& row, const EncodedRow&, const std::string& where,
                 std::span<ColumnDraft> columns) {
        columns[0].integers = {static_cast<int32_t>(row.line)};
        if (!row.label) return;
        for (const std::string& item : row.label->items) {
          if (item == "7") throw Error(ErrorCode::bad_data, where, "seven");
          columns[1].reals.push_back(std::stof(item));
          columns[2].names.insert(columns[2].names.end(), columns[1].reals.size(), "n" + item);
        }
      }};
  return form;
}

TEST(TokenCache, columns_are_scalars_vectors_and_ragged) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("a.jsonl",
                                        "{\"text\": \"a\", \"label\": [2, 1.5]}\n"
                                        "{\"text\": \"b\", \"label\": [7, 0]}\n"
                                        "{\"text\": \"c\", \"label\": [1]}\n"
                                        "{\"text\": \"d\", \"label\": [-0.25, 2]}\n"));
  spec.form = &numbers_and_names();
  spec.bad_rows = BadRows::skip;
  const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(16));
  ASSERT_EQ(cache.rows(), 2);
  EXPECT_EQ(cache.width(), 2);
  EXPECT_EQ(cache.most_values(), 1 + 2 + 1 + 3);
  EXPECT_EQ(cache.report().bad, 2);
  EXPECT_EQ(cache.labels().names(), (std::vector<std::string>{"n-0.25", "n1.5", "n2"}));
  EXPECT_EQ(cache.report().label_counts, (std::vector<int64_t>{1, 2, 3}));
  RowColumns row;
  cache.read_columns(1, row);
  ASSERT_EQ(row.size(), 3u);
  EXPECT_EQ(row.integers(0).front(), 4);
  EXPECT_EQ(std::vector<float>(row.reals(1).begin(), row.reals(1).end()),
            (std::vector<float>{-0.25, 2}));
  EXPECT_EQ(std::vector<int32_t>(row.integers(2).begin(), row.integers(2).end()),
            (std::vector<int32_t>{0, 2, 2}));
  EXPECT_EQ(text_of(cache, 1), "<d>");
  // Another task's columns are built anew, and what the model's rows must have is held.
  spec.width = 3;
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); },
               ErrorCode::bad_data, "no row can be used");
  spec.bad_rows = BadRows::stop;
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); },
               ErrorCode::bad_data, "the column 'numbers' has 2 numbers, not 3 as the model");
  spec.label_use = LabelUse::ignore;
  const TokenCache rows = open_or_build_token_cache(folder.file("p"), spec, toy_encoder(16));
  ASSERT_EQ(rows.rows(), 4);
  rows.read_columns(3, row);
  ASSERT_EQ(row.size(), 1u);
  EXPECT_EQ(row.integers(0).front(), 4);
}

TEST(TokenCache, truncation_at_any_byte_is_found_when_opening) {
  const TemporaryFolder folder;
  const CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\nhello\t1\nb\t2\n"));
  const auto path = folder.file("cache");
  build_token_cache(path, spec, toy_encoder(16));
  const std::string bytes = slurp(path);
  const auto cut = folder.write("cut", bytes);
  for (size_t size = bytes.size(); size-- > 0;) {
    std::filesystem::resize_file(cut, size);
    expect_error([&] { (void)TokenCache::open(cut, spec); }, ErrorCode::bad_data,
                 "the token cache is damaged");
  }
  const auto longer = folder.write("cut", bytes + "x");
  expect_error([&] { (void)TokenCache::open(longer, spec); }, ErrorCode::bad_data,
               "its size does not match");
}

TEST(TokenCache, any_changed_byte_is_found_and_the_cache_is_built_again) {
  const TemporaryFolder folder;
  const CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\nhello\t1\nb\t2\n"));
  const auto path = folder.file("cache");
  build_token_cache(path, spec, toy_encoder(16));
  const std::string bytes = slurp(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t at, int byte) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte)).flush();
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    put(at, bytes[at] ^ (at % 3 == 0 ? 0xFF : 1 << at % 8));
    expect_error([&] { read_all(path, spec); }, ErrorCode::bad_data, "token cache");
    put(at, bytes[at]);
  }
  ASSERT_NO_THROW(read_all(path, spec));
  std::string header_only = bytes;
  header_only[0] = 'X';
  (void)folder.write("cache", header_only);
  EXPECT_EQ(open_or_build_token_cache(path, spec, toy_encoder(16)).rows(), 2);
  EXPECT_EQ(slurp(path), bytes);
}

// A forger makes the checksums right: the limits must hold by themselves.
TEST(TokenCache, hostile_fields_with_right_checksums_are_refused) {
  const TemporaryFolder folder;
  const CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\nhello\t1\nb\t2\n"));
  const auto path = folder.file("cache");
  build_token_cache(path, spec, toy_encoder(16));
  const std::string bytes = slurp(path);
  CacheHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const size_t index_at = sizeof(header) + header.tokens_bytes;

  const auto with_record = [&](auto change) {
    std::string forged = bytes;
    std::vector<IndexRecord> records(2);
    std::memcpy(records.data(), forged.data() + index_at, 2 * sizeof(IndexRecord));
    change(records[1]);
    std::memcpy(forged.data() + index_at, records.data(), 2 * sizeof(IndexRecord));
    CacheHeader changed = header;
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(records)));
    changed.index_checksum = checksum.value();
    changed.header_checksum = header_checksum(changed);
    std::memcpy(forged.data(), &changed, sizeof(changed));
    (void)folder.write("cache", forged);
    expect_error([&] { read_all(path, spec); }, ErrorCode::bad_data, "the token cache is damaged");
  };
  with_record([](IndexRecord& record) { record.offset = ~uint64_t{0}; });
  with_record([](IndexRecord& record) { record.offset = 0; });
  with_record([](IndexRecord& record) { record.length = ~uint32_t{0}; });
  with_record([](IndexRecord& record) { record.length = 4; });
  with_record([](IndexRecord& record) { record.first_segment = 17; });
  with_record([](IndexRecord& record) { record.column_bytes = 0; });
  with_record([](IndexRecord& record) { record.column_bytes = 6; });
  with_record([](IndexRecord& record) { record.column_bytes = ~uint32_t{3}; });
  with_record([](IndexRecord& record) { record.column_checksum ^= 1; });
  with_record([](IndexRecord& record) { record.file = 1; });
  with_record([](IndexRecord& record) { record.line = ~uint64_t{0}; });

  const auto with_header = [&](auto change) {
    std::string forged = bytes;
    CacheHeader changed = header;
    change(changed);
    changed.header_checksum = header_checksum(changed);
    std::memcpy(forged.data(), &changed, sizeof(changed));
    (void)folder.write("cache", forged);
    expect_error([&] { read_all(path, spec); }, ErrorCode::bad_data, "token cache");
  };
  with_header([](CacheHeader& h) { h.rows = ~uint64_t{0} / 40 + 1; });
  with_header([](CacheHeader& h) { h.tokens_bytes = ~uint64_t{0}; });
  with_header([](CacheHeader& h) { h.metadata_bytes = ~uint64_t{0} - 100; });
  with_header([](CacheHeader& h) { h.token_bytes = 0; });
  with_header([](CacheHeader& h) { h.max_seq_length = 1u << 30; });
  with_header([](CacheHeader& h) { h.complete = 0; });
  with_header([](CacheHeader& h) { h.version = kCacheVersion + 1; });

  // An id outside the vocabulary under a right row checksum.
  std::string forged = bytes;
  forged[sizeof(header) + 1] = '\x7F';
  Checksum row;
  row.add(std::as_bytes(std::span(forged)).subspan(sizeof(header), 14));
  std::vector<IndexRecord> records(2);
  std::memcpy(records.data(), forged.data() + index_at, 2 * sizeof(IndexRecord));
  records[0].checksum = row.folded();
  std::memcpy(forged.data() + index_at, records.data(), 2 * sizeof(IndexRecord));
  CacheHeader changed = header;
  Checksum index;
  index.add(std::as_bytes(std::span(records)));
  changed.index_checksum = index.value();
  changed.header_checksum = header_checksum(changed);
  std::memcpy(forged.data(), &changed, sizeof(changed));
  (void)folder.write("cache", forged);
  expect_error([&] { read_all(path, spec); }, ErrorCode::bad_data,
               "holds an id outside the vocabulary");
}

// A list of labels may be empty; where all are, a new head has nothing to tell apart, and the
// labels of a trained one are kept.
TEST(TokenCache, lists_of_labels_that_are_all_empty) {
  const TemporaryFolder folder;
  static const RowForm names{.name = "names",
                             .has_words = false,
                             .columns = {{.name = "names", .form = ColumnForm::ragged}},
                             .read = [](const Row& row, const EncodedRow&, const std::string&,
                                        std::span<ColumnDraft> columns) {
                               if (row.label) columns[0].names = row.label->items;
                             }};
  CacheSpec spec = spec_of(folder.write("a.jsonl",
                                        "{\"text\": \"a\", \"label\": []}\n"
                                        "{\"text\": \"b\", \"label\": []}\n"));
  spec.form = &names;
  for (const int64_t count : {0, 3}) {
    spec.rule = {.count = count};
    expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); },
                 ErrorCode::bad_data, "every row has an empty list of labels");
  }
  spec.rule = {.model = {"x", "y"}, .is_trained = true};
  const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(16));
  EXPECT_EQ(cache.rows(), 2);
  EXPECT_EQ(cache.labels().names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(cache.report().label_counts, (std::vector<int64_t>{0, 0}));
}

/// Labels by their places in a list of all: [0, 1, 1]; or by name.
const RowForm& places_or_names() {
  static const RowForm form{.name = "places",
                            .has_words = false,
                            .columns = {{.name = "label", .form = ColumnForm::ragged}},
                            .read = [](const Row& row, const EncodedRow&, const std::string&,
                                       std::span<ColumnDraft> columns) {
                              if (!row.label) return;
                              if (!row.label->is_number) {
                                columns[0].names = row.label->items;
                                return;
                              }
                              LabelPlaces places{.count = std::ssize(row.label->items),
                                                 .taken = {}};
                              for (size_t i = 0; i < row.label->items.size(); ++i) {
                                if (row.label->items[i] == "1")
                                  places.taken.push_back(static_cast<int32_t>(i));
                              }
                              columns[0].places = std::move(places);
                            }};
  return form;
}

TEST(TokenCache, labels_by_place_are_all_places_in_their_order) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl",
                                 "{\"text\": \"a\", \"label\": [1, 0, 0]}\n"
                                 "{\"text\": \"b\", \"label\": [1, 0, 1]}\n"
                                 "{\"text\": \"c\", \"label\": [0, 0, 0]}\n");
  CacheSpec spec = spec_of(file);
  spec.form = &places_or_names();
  const auto labels_of = [&](const TokenCache& cache, int64_t row) {
    RowColumns columns;
    cache.read_columns(row, columns);
    return std::vector<int32_t>(columns.integers(0).begin(), columns.integers(0).end());
  };
  const auto check = [&](const std::vector<std::string>& names) {
    const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(16));
    EXPECT_EQ(cache.labels().names(), names);
    EXPECT_EQ(cache.report().label_counts, (std::vector<int64_t>{2, 0, 1}));
    EXPECT_EQ(labels_of(cache, 1), (std::vector<int32_t>{0, 2}));
    EXPECT_TRUE(labels_of(cache, 2).empty());
  };
  check({"0", "1", "2"});
  spec.rule = {.order = {"z", "y", "x"}, .order_key = "label_order"};
  check({"z", "y", "x"});
  spec.rule = {.model = {"c", "a", "b"}, .is_trained = true};
  check({"c", "a", "b"});
  spec.label_use = LabelUse::known;
  spec.known_labels = Labels::from_names({"c", "a", "b"});
  check({"c", "a", "b"});
  const auto refused = [&](ErrorCode code, const std::string& text) {
    expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); }, code, text);
  };
  spec.known_labels = Labels::from_names({"a", "b"});
  refused(ErrorCode::bad_data, "a list of 3 numbers, one a label; the model has 2");
  spec.label_use = LabelUse::find;
  spec.rule = {.order = {"a", "b"}, .order_key = "label_order"};
  refused(ErrorCode::bad_data,
          "a.jsonl:1] the label is a list of 3 numbers, one a label; "
          "label_order has 2");
  spec.rule = {};
  spec.files = {folder.write("b.jsonl",
                             "{\"text\": \"a\", \"label\": [1, 0]}\n"
                             "{\"text\": \"b\", \"label\": [1, 0, 1]}\n")};
  refused(ErrorCode::bad_data,
          "b.jsonl:2] the label is a list of 3 numbers, one a label; the rows "
          "before have 2");
  for (const char* rows : {"[1, 0]|[\"a\"]", "[\"a\"]|[1, 0]"}) {
    const std::string text = rows;
    const size_t bar = text.find('|');
    spec.files = {folder.write(
        "d.jsonl", "{\"text\": \"a\", \"label\": " + text.substr(0, bar) +
                       "}\n{\"text\": \"b\", \"label\": " + text.substr(bar + 1) + "}\n")};
    refused(ErrorCode::bad_data, "d.jsonl:2] the label is a list of ");
  }
}

TEST(TokenCache, unknown_tokens_quotes_and_texts_without_a_glyph_are_counted) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("a.tsv",
                                        "text\tlabel\n"
                                        "xa\tA\n"
                                        "\"say \"\"hi\"\" \"\tA\n"
                                        "\"quoted\"\tB\n"
                                        "\"a\" and \"b\"\tB\n"
                                        "\u200b\tB\n"));
  spec.unknown_id = 'x';
  const DataReport report = build_token_cache(folder.file("c"), spec, toy_encoder(40));
  EXPECT_EQ(report.unknown_tokens, 1);
  EXPECT_EQ(report.quoted, 2);
  EXPECT_EQ(report.doubled_quotes, 1);
  EXPECT_EQ(report.invisible, 1);
  const TokenCache cache = TokenCache::open(folder.file("c"), spec);
  EXPECT_EQ(cache.report(), report);
  // Quotes of CSV are no part of its fields.
  spec.files = {folder.write("a.csv", "text,label\n\"say \"\"hi\"\"\",A\nb,B\n")};
  EXPECT_EQ(build_token_cache(folder.file("c"), spec, toy_encoder(40)).quoted, 0);
}

TEST(TokenCache, metadata_of_any_wrong_shape_are_refused) {
  for (const char* text : {"", "{", "[]", "{}", "{\"key\": 1, \"labels\": [], \"report\": {}}",
                           "{\"key\": \"k\", \"labels\": [\"a\", \"a\"], \"report\": {}}"}) {
    expect_error([&] { (void)metadata_from_json(text, "cache"); }, ErrorCode::bad_data,
                 "the metadata of the token cache are damaged");
  }
  CacheMetadata metadata{.key = "k",
                         .columns = {{.name = "x", .form = ColumnForm::ragged}},
                         .width = 3,
                         .codes = {0},
                         .labels = Labels::from_names({"a"}),
                         .report = {}};
  metadata.report.label_counts = {3};
  EXPECT_EQ(metadata_from_json(to_json(metadata), "cache").report, metadata.report);
  EXPECT_EQ(metadata_from_json(to_json(metadata), "cache").columns, metadata.columns);
  EXPECT_EQ(metadata_from_json(to_json(metadata), "cache").width, 3);
  metadata.codes = {1};
  expect_error([&] { (void)metadata_from_json(to_json(metadata), "cache"); }, ErrorCode::bad_data,
               "damaged");
  metadata.codes = {0};
  metadata.report.label_counts = {};
  expect_error([&] { (void)metadata_from_json(to_json(metadata), "cache"); }, ErrorCode::bad_data,
               "damaged");
  metadata.report.label_counts = {-1};
  expect_error([&] { (void)metadata_from_json(to_json(metadata), "cache"); }, ErrorCode::bad_data,
               "damaged");
}

TEST(Labels, numbers_sort_as_numbers_and_names_by_bytes) {
  const auto order = [](std::vector<std::string> names) {
    LabelFinder finder;
    for (const std::string& name : names) (void)finder.add(name, "f:1");
    return finder.finish().labels.names();
  };
  EXPECT_EQ(order({"10", "9", "-1"}), (std::vector<std::string>{"-1", "9", "10"}));
  EXPECT_EQ(order({"10", "9", "x"}), (std::vector<std::string>{"10", "9", "x"}));
  EXPECT_EQ(order({"b", "a", "B"}), (std::vector<std::string>{"B", "a", "b"}));
  EXPECT_EQ(order({"1.5", "0.5"}), (std::vector<std::string>{"0.5", "1.5"}));
  EXPECT_EQ(order({"10.0", "1.0", "2.0"}), (std::vector<std::string>{"1.0", "2.0", "10.0"}));
  EXPECT_EQ(order({"10", "+2", "01"}), (std::vector<std::string>{"01", "+2", "10"}));
  EXPECT_EQ(order({"nan", "10.0", "9.0"}), (std::vector<std::string>{"10.0", "9.0", "nan"}));
  std::vector<std::string> scores;
  for (int i = 0; i < 65; ++i) scores.push_back(std::to_string(i) + ".5");
  expect_error([&] { (void)order(scores); }, ErrorCode::unsupported, "set task to regression");
  LabelFinder finder;
  expect_error([&] { (void)finder.add(std::string(257, 'x'), "f:3"); }, ErrorCode::bad_data,
               "[f:3] a label of 257 bytes");
  for (int64_t i = 0; i < kMaxLabels; ++i) (void)finder.add("l" + std::to_string(i), "f:1");
  expect_error([&] { (void)finder.add("one more", "f:4"); }, ErrorCode::unsupported,
               "more than 16384 different labels");
}

TEST(Labels, a_name_of_several_classes_is_told_apart_by_ids) {
  const Labels labels = Labels::from_names({"crane", "heron", "crane"});
  EXPECT_FALSE(labels.find("crane"));
  EXPECT_TRUE(labels.is_repeated("crane"));
  EXPECT_EQ(labels.find("heron"), 1);
  EXPECT_EQ(told_apart(labels.names()),
            (std::vector<std::string>{"crane (0)", "heron", "crane (2)"}));
  LabelLookup lookup(labels);
  EXPECT_EQ(lookup.find("2", "f:1"), 2);
  expect_error([&] { (void)lookup.find("crane", "f:2"); }, ErrorCode::bad_data,
               "[f:2] the label 'crane' is the name of several classes of the model: 0, 2");
  const LabelRule rule{.model = labels.names(), .is_trained = true};
  EXPECT_EQ(map_labels(rule, {.names = {"heron"}, .ids = {-1}}, "f").id_of.at(0), 1);
  EXPECT_EQ(map_labels(rule, {.names = {"0", "2"}, .ids = {0, 2}}, "f").id_of.at(1), 2);
  expect_error(
      [&] {
        (void)map_labels(rule, {.names = {"crane", "heron"}, .ids = {-1, -1}}, "f");
      },
      ErrorCode::bad_data, "give ids from 0 to 2");
}

TEST(Labels, rows_that_are_all_minus_one_have_no_labels) {
  const LabelRule rule{.model = {"LABEL_0", "LABEL_1"}, .is_trained = true};
  expect_error([&] { (void)map_labels(rule, {.names = {"-1"}, .ids = {-1}}, "f"); },
               ErrorCode::bad_data, "snug predict needs none");
}

TEST(Labels, one_unseen_in_training_is_named_with_file_and_line) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("valid.tsv", "text\tlabel\na\tyes\nb\tmaybe\nc\tno\n"));
  spec.label_use = LabelUse::known;
  spec.known_labels = Labels::from_names({"no", "yes"});
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); },
               ErrorCode::bad_data,
               "valid.tsv:3] the label 'maybe' does not occur in the training data\nhint: the "
               "known labels are no, yes");
  EXPECT_EQ(folder.entries(), 1);
  spec.bad_rows = BadRows::skip;
  const DataReport report = build_token_cache(folder.file("c"), spec, toy_encoder(16));
  EXPECT_EQ(report.rows_read, 3);
  EXPECT_EQ(report.kept, 2);
  EXPECT_EQ(report.bad, 1);
  EXPECT_EQ(report.label_counts, (std::vector<int64_t>{1, 1}));
}

TEST(Labels, a_file_with_no_label_of_the_model_is_refused_with_both_lists) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("valid.tsv", "text\tlabel\na\tpos\nb\tneg\nc\tpos\n"));
  spec.label_use = LabelUse::known;
  spec.known_labels = Labels::from_names({"LABEL_0", "LABEL_1"});
  const auto refused = [&](const std::string& text) {
    expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); },
                 ErrorCode::bad_data, text);
  };
  for (const BadRows policy : {BadRows::stop, BadRows::skip}) {
    spec.bad_rows = policy;
    spec.rule.is_trained = true;
    refused(
        "valid.tsv:2] the labels of the data are neg, pos; those of the trained model are "
        "LABEL_0, LABEL_1, which does not say which is which\nhint: name the model's labels");
    spec.rule.is_trained = false;
    refused(
        "those of the training data are LABEL_0, LABEL_1, and the two do not match\nhint: name "
        "the labels as train_file does");
  }
}

TEST(Labels, ids_with_a_row_of_another_label_are_kept_where_that_row_may_be_skipped) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("valid.tsv", "text\tlabel\na\tother\nb\t0\nc\t1\n"));
  spec.label_use = LabelUse::known;
  spec.known_labels = Labels::from_names({"no", "yes"});
  spec.bad_rows = BadRows::skip;
  EXPECT_EQ(build_token_cache(folder.file("c"), spec, toy_encoder(16)).kept, 2);
}

TEST(TokenCache, prediction_keeps_every_row_in_order_and_needs_no_label) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write(
      "p.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n{\"text\": \"c\", \"label\": [1]}\n"));
  spec.label_use = LabelUse::ignore;
  const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(16));
  ASSERT_EQ(cache.rows(), 3);
  EXPECT_EQ(text_of(cache, 1), "<>");
  EXPECT_EQ(text_of(cache, 2), "<c>");
  RowColumns columns;
  cache.read_columns(0, columns);
  EXPECT_EQ(columns.size(), 0u);
  EXPECT_EQ(cache.most_values(), 0);
}

TEST(TokenCache, data_without_a_usable_row_are_refused) {
  const TemporaryFolder folder;
  const auto build = [&](const std::string& file) {
    build_token_cache(folder.file("c"), spec_of(file), toy_encoder(16));
  };
  expect_error([&] { build(folder.write("a.jsonl", "")); }, ErrorCode::bad_data,
               "the file holds no rows");
  expect_error([&] { build(folder.write("b.jsonl", "{\"text\": \"a\", \"class\": 1}\n")); },
               ErrorCode::bad_config,
               "there is no column 'label'; the columns are: text, class\nhint: set label_column");
  expect_error([&] { build(folder.write("c.tsv", "text\tlabel\n\t1\na\t\n")); },
               ErrorCode::bad_data,
               "no row can be used: of 2 rows 1 have no label, 1 are empty and 0 are bad");
  expect_error([&] { build(folder.file("none.tsv")); }, ErrorCode::io, "No such file");
  expect_error([&] { build_token_cache(folder.file("c"), spec_of("x.tsv", 0), toy_encoder(1)); },
               ErrorCode::bad_config, "[max_seq_length]");
  expect_error([&] { build_token_cache(folder.file("c"), {}, toy_encoder(1)); },
               ErrorCode::bad_config, "no data file is given");
}

TEST(TokenCache, several_files_are_one_set_of_rows) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\na\t1\n"));
  spec.files.push_back(folder.write("b.jsonl", "{\"text\": \"b\", \"label\": 2}\n"));
  const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(16));
  ASSERT_EQ(cache.rows(), 2);
  EXPECT_EQ(cache.info(1).file, 1);
  EXPECT_EQ(cache.info(1).line, 1);
  EXPECT_EQ(label_of(cache, 1), 1);
}

TEST(TokenCache, cancelling_leaves_the_old_cache_and_no_other_file) {
  const TemporaryFolder folder;
  std::string text = "text\tlabel\n";
  for (int i = 0; i < 5000; ++i) text += "row " + std::to_string(i) + "\t1\n";
  const CacheSpec spec = spec_of(folder.write("a.tsv", text));
  std::atomic<bool> cancel{false};
  int64_t reported = 0;
  const BuildHooks hooks{.progress =
                             [&](const BuildProgress& progress) {
                               reported = progress.rows;
                               EXPECT_LE(progress.bytes_read, progress.total_bytes);
                               cancel = progress.rows >= 2000;
                             },
                         .cancel = &cancel};
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16), hooks); },
               ErrorCode::cancelled, "stopped on request");
  EXPECT_EQ(reported, 2000);
  EXPECT_EQ(folder.entries(), 1);
}

TEST(TokenCache, an_encoder_that_throws_leaves_no_file) {
  const TemporaryFolder folder;
  const CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\na\t1\n"));
  const EncodeFn encode = [](const RowText&, EncodedRow&) {
    throw Error(ErrorCode::bad_config, "tokenizer", "no");
  };
  expect_error([&] { build_token_cache(folder.file("c"), spec, encode); }, ErrorCode::bad_config,
               "[tokenizer] no");
  const EncodeFn outside = [](const RowText&, EncodedRow& out) { out.ids = {kVocabulary}; };
  expect_error([&] { build_token_cache(folder.file("c"), spec, outside); }, ErrorCode::internal,
               "outside the vocabulary");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(TokenCache, a_full_disk_is_an_io_error_and_a_second_writer_is_refused) {
  const TemporaryFolder folder;
  std::string text = "text\tlabel\n";
  for (int i = 0; i < 40000; ++i) text += "a row of some length\t1\n";
  const CacheSpec spec = spec_of(folder.write("a.tsv", text));
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 600'000, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); }, ErrorCode::io,
               "cannot write");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(folder.entries(), 1);

  const int fd = ::open(folder.file("c.tmp").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  expect_error([&] { build_token_cache(folder.file("c"), spec, toy_encoder(16)); }, ErrorCode::io,
               "another process is writing");
  ::close(fd);
  EXPECT_EQ(build_token_cache(folder.file("c"), spec, toy_encoder(16)).kept,
            40000);  // the left-over is taken over
}

TEST(TokenCache, building_from_a_large_file_stays_within_a_few_mebibytes) {
  const TemporaryFolder folder;
  const auto file = folder.file("large.jsonl");
  {
    std::ofstream out(file, std::ios::binary);
    const std::string filler(220, 'x');
    for (int i = 0; i < 200'000; ++i) {
      out << "{\"text\": \"row " << i << " " << filler << "\", \"label\": \"class " << i % 45
          << "\"}\n";
    }
  }
  ASSERT_GT(std::filesystem::file_size(file), 50u << 20);
  const int64_t before = AllocationCounter::live_bytes();
  AllocationCounter::restart_peak();
  const CacheSpec spec = spec_of(file, 128);
  const TokenCache cache = open_or_build_token_cache(folder.file("c"), spec, toy_encoder(128));
  EXPECT_LT(AllocationCounter::peak_bytes() - before, int64_t{2} << 20);
  EXPECT_EQ(cache.rows(), 200'000);
  EXPECT_EQ(cache.labels().size(), 45);
  std::vector<int32_t> ids(128);
  const int64_t calls = AllocationCounter::calls();
  for (int64_t row = 0; row < cache.rows(); row += 1009)
    EXPECT_EQ(cache.read_row(row, ids).length, 128);
  EXPECT_EQ(AllocationCounter::calls(), calls);
}

}  // namespace
}  // namespace snug::data
