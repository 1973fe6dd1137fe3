// SPDX-License-Identifier: Apache-2.0
// Micro-batches: exact contents, padding rows, splits of one global batch, and the way from a file
// to a batch.
#include "data/data_testing.h"
#include "data/sampler.h"
#include "data/token_cache.h"

namespace snug::data {
namespace {

struct Arrays {
  explicit Arrays(int64_t rows, int64_t length)
      : input_ids(static_cast<size_t>(rows * length), -7),
        token_type_ids(input_ids),
        attention_mask(input_ids.size(), 9) {}
  BatchBuffers buffers() {
    return {
        .input_ids = input_ids, .token_type_ids = token_type_ids, .attention_mask = attention_mask};
  }
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;
  std::vector<uint8_t> attention_mask;
};

TokenCache pair_cache(const TemporaryFolder& folder) {
  CacheSpec spec{.files = {folder.write("a.csv", "text,pair,label\na,bc,0\ndef,g,1\nh,i,1\n")},
                 .max_seq_length = 16,
                 .vocab_size = 302,
                 .tokenizer_fingerprint = "toy"};
  spec.schema.text_pair_column = "pair";
  return open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(16));
}

TEST(Batch, contents_are_exact_and_missing_rows_are_padding) {
  const TemporaryFolder folder;
  const TokenCache cache = pair_cache(folder);
  const std::vector<int64_t> rows = {2, 0};
  Arrays got(3, 8);
  cache.fill({rows, 0, 3, 8, 5}, got.buffers());
  EXPECT_EQ(got.input_ids, (std::vector<int32_t>{300, 'h', 301, 'i', 301, 5,   5, 5,  //
                                                 300, 'a', 301, 'b', 'c', 301, 5, 5,  //
                                                 5,   5,   5,   5,   5,   5,   5, 5}));
  EXPECT_EQ(got.token_type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1, 0, 0, 0,  //
                                                      0, 0, 0, 1, 1, 1, 0, 0,  //
                                                      0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(got.attention_mask, (std::vector<uint8_t>{1, 1, 1, 1, 1, 0, 0, 0,  //
                                                      1, 1, 1, 1, 1, 1, 0, 0,  //
                                                      0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Batch, micro_batches_put_together_are_the_global_batch) {
  const TemporaryFolder folder;
  const TokenCache cache = pair_cache(folder);
  const std::vector<int64_t> rows = {0, 1, 2};
  Arrays whole(4, 16);
  cache.fill({rows, 0, 4, 16, 0}, whole.buffers());
  for (int64_t micro : {1, 2, 4}) {
    Arrays parts(4, 16);
    for (int64_t slot = 0; slot < 4; slot += micro) {
      Arrays part(micro, 16);
      cache.fill({rows, slot, micro, 16, 0}, part.buffers());
      std::copy(part.input_ids.begin(), part.input_ids.end(), parts.input_ids.begin() + slot * 16);
    }
    EXPECT_EQ(parts.input_ids, whole.input_ids);
  }
}

TEST(Batch, empty_buffers_are_left_out_and_small_ones_refused) {
  const TemporaryFolder folder;
  const TokenCache cache = pair_cache(folder);
  const std::vector<int64_t> rows = {0};
  std::vector<int32_t> ids(8);
  cache.fill({rows, 0, 1, 8, 0}, {.input_ids = ids});
  EXPECT_EQ(ids[1], 'a');
  Arrays small(1, 4);
  expect_error(
      [&] {
        cache.fill({rows, 0, 1, 8, 0}, small.buffers());
      },
      ErrorCode::internal, "too small");
  expect_error(
      [&] {
        cache.fill({rows, 0, 1, 4, 0}, small.buffers());
      },
      ErrorCode::internal, "too little room");
}

TEST(Batch, an_epoch_from_file_to_batches_allocates_nothing_and_sees_every_label) {
  const TemporaryFolder folder;
  std::string text = "text\tlabel\n";
  for (int i = 0; i < 1000; ++i)
    text += std::string(static_cast<size_t>(1 + i * 31 % 40), 'a') + "\t" + std::to_string(i % 7) +
            "\n";
  const CacheSpec spec{.files = {folder.write("a.tsv", text)},
                       .max_seq_length = 32,
                       .vocab_size = 302,
                       .tokenizer_fingerprint = "toy"};
  const TokenCache cache = open_or_build_token_cache(folder.file("cache"), spec, toy_encoder(32));
  TrainSampler sampler(
      Subset::all(cache.rows()),
      [&](auto rows, auto lengths) { cache.read_lengths(rows, lengths); },
      {.batch_size = 16, .seed = 1, .buckets = bucket_lengths(32, cache.max_length())});
  Arrays arrays(4, 32);
  std::vector<int64_t> labels(7, 0);
  RowColumns columns;
  columns.reserve(cache.most_values());
  (void)sampler.next();
  sampler.seek(1, 0);
  const int64_t calls = AllocationCounter::calls();
  for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
    const BatchPlan plan = sampler.next();
    for (int64_t slot = 0; slot < 16; slot += 4) {
      cache.fill({plan.rows, slot, 4, plan.bucket_length, 0}, arrays.buffers());
    }
    for (const int64_t row : plan.rows) {
      cache.read_columns(row, columns);
      ++labels[static_cast<size_t>(columns.integers(0).front())];
    }
  }
  EXPECT_EQ(AllocationCounter::calls(), calls);
  EXPECT_EQ(labels, cache.report().label_counts);
}

}  // namespace
}  // namespace snug::data
