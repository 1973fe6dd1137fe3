// SPDX-License-Identifier: Apache-2.0
// Rows that are too long, and rows with weights: what the cache keeps of them and counts.
#include <gtest/gtest.h>

#include "data/data_testing.h"
#include "data/rows.h"
#include "data/token_cache.h"

namespace snug::data {
namespace {

CacheSpec spec_of(const std::string& file) {
  CacheSpec spec;
  spec.files = {file};
  spec.max_seq_length = 6;
  spec.vocab_size = 400;
  return spec;
}

// Windows of two bytes, one shared.
void encode_windows(const RowText& row, EncodedRow& out) {
  const auto begin = static_cast<size_t>(row.window);
  out.ids = {row.text[begin]};
  if (row.text.size() > 1) out.ids.push_back(row.text[begin + 1]);
  out.has_more = begin + 2 < row.text.size();
}

TEST(Overlong, windows_are_rows_with_the_label_and_their_place) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\tw\nabcd\tx\t2\ne\ty\t0.5\n"));
  spec.overlong = Overlong::window;
  spec.schema.weight_column = "w";
  const TokenCache cache = open_or_build_token_cache(folder.file("cache"), spec, encode_windows);
  ASSERT_EQ(cache.rows(), 4);
  const size_t window = cache.find_column(kWindowColumn).value();
  const size_t weight = cache.find_column(kWeightColumn).value();
  RowColumns columns;
  columns.reserve(cache.most_values());
  std::vector<int32_t> windows;
  std::vector<int32_t> labels;
  std::vector<float> weights;
  for (int64_t row = 0; row < cache.rows(); ++row) {
    cache.read_columns(row, columns);
    windows.push_back(columns.integers(window).front());
    labels.push_back(columns.integers(0).front());
    weights.push_back(columns.reals(weight).front());
  }
  EXPECT_EQ(windows, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(weights, (std::vector<float>{2, 2, 2, 0.5}));
  EXPECT_EQ(cache.report().windowed, 1);
  EXPECT_EQ(cache.report().more_windows, 2);
  EXPECT_EQ(cache.report().rows_read, 2);
  EXPECT_EQ(cache.report().label_counts, (IndexVector<int64_t>{1, 1}));
}

TEST(Overlong, rows_are_left_out_or_end_the_run) {
  const TemporaryFolder folder;
  CacheSpec spec = spec_of(folder.write("a.tsv", "text\tlabel\nab\tx\nabcdefgh\ty\n"));
  const auto report = [&] {
    return open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(6)).report();
  };
  EXPECT_EQ(report().truncated, 1);
  spec.overlong = Overlong::drop;
  EXPECT_EQ(report().dropped_long, 1);
  EXPECT_EQ(report().kept, 1);
  spec.overlong = Overlong::error;
  expect_error([&] { (void)report(); }, ErrorCode::bad_data, "a.tsv:3");
}

TEST(Weights, what_is_no_weight_is_a_bad_row) {
  const TemporaryFolder folder;
  BadRowLog log{.policy = BadRows::skip};
  const auto read = [&](const std::string& file) {
    RowSchema schema;
    schema.weight_column = "w";
    std::vector<float> weights;
    const auto reader = open_rows(file, schema, log);
    Row row;
    while (reader->next(row)) weights.push_back(row.weight);
    return weights;
  };
  EXPECT_EQ(read(folder.write("a.jsonl",
                              "{\"text\": \"a\", \"label\": \"b\", \"w\": 0}\n"
                              "{\"text\": \"a\", \"label\": \"b\", \"w\": \"2.5\"}\n"
                              "{\"text\": \"a\", \"label\": \"b\", \"w\": [1]}\n"
                              "{\"text\": \"a\", \"label\": \"b\", \"w\": null}\n"
                              "{\"text\": \"a\", \"label\": \"b\"}\n"
                              "{\"text\": \"a\", \"label\": \"b\", \"w\": 1e99}\n")),
            (std::vector<float>{0, 2.5}));
  EXPECT_EQ(read(folder.write("a.csv", "text,label,w\na,b,1e-3\na,b,\na,b,-1\na,b,inf\n")),
            (std::vector<float>{1e-3F}));
  EXPECT_EQ(log.count, 7);
  expect_error([&] { (void)read(folder.write("b.csv", "text,label\na,b\n")); },
               ErrorCode::bad_config, "there is no column 'w'");
  expect_error(
      [&] { (void)read(folder.write("b.jsonl", "{\"text\": \"a\", \"label\": \"b\"}\n")); },
      ErrorCode::bad_config, "weight_column");
}

}  // namespace
}  // namespace snug::data
