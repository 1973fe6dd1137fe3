// SPDX-License-Identifier: Apache-2.0
// A token cache that is held in memory.
#include <string>
#include <vector>

#include "data/data_testing.h"

namespace snug::data {
namespace {

TokenCache opened(const std::string& path, const std::string& rows) {
  const CacheSpec spec{
      .files = {rows}, .max_seq_length = 16, .vocab_size = 302, .tokenizer_fingerprint = "toy"};
  return open_or_build_token_cache(path, spec, toy_encoder(16));
}

std::vector<int32_t> ids_of(const TokenCache& cache, int64_t row) {
  std::vector<int32_t> ids(64);
  ids.resize(static_cast<size_t>(cache.read_row(row, ids).length));
  return ids;
}

TEST(HeldRows, rows_that_are_held_need_their_file_no_more) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\nhello\tzebra\nhi\tape\nworld\tzebra\n");
  const std::string path = folder.file("cache");
  const TokenCache cache = opened(path, file);
  EXPECT_EQ(cache.file_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < cache.rows(); ++row) {
    ids.push_back(ids_of(cache, row));
    labels.push_back(label_of(cache, row));
  }
  const std::vector<int64_t> all = {2, 0, 1, 0};
  cache.expect(all);  // nothing is held yet
  cache.hold_in_memory();
  std::filesystem::resize_file(path, 0);
  cache.expect(all);
  cache.expect({});
  for (int64_t row = 0; row < cache.rows(); ++row) {
    EXPECT_EQ(ids_of(cache, row), ids[static_cast<size_t>(row)]);
    EXPECT_EQ(label_of(cache, row), labels[static_cast<size_t>(row)]);
    EXPECT_EQ(cache.info(row).line, row + 2);
  }
}

TEST(HeldRows, a_file_that_has_become_shorter_is_not_held) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\nhello\tzebra\nhi\tape\n");
  const std::string path = folder.file("cache");
  const TokenCache cache = opened(path, file);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_error([&] { cache.hold_in_memory(); }, ErrorCode::bad_data, "it ends too early");
}

}  // namespace
}  // namespace snug::data
