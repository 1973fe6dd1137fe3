// SPDX-License-Identifier: Apache-2.0
// Rows read ahead are those that are read when they are asked for.
#include "train/batch_stream.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ops/fed_names.h"
#include "run_model/model_network.h"
#include "session/run_session.h"
#include "snug/error.h"
#include "train/testing.h"

namespace snug::train {
namespace {

constexpr int64_t kRows = 22;
constexpr int64_t kBatch = 5;
constexpr int64_t kMicroBatch = 2;

// Rows of 3 to 12 tokens, of weights from 1 to 4. `broken`: one that cannot be read.
class MemoryRows final : public data::RowStore {
 public:
  explicit MemoryRows(int64_t broken = -1) : broken_(broken) {}

  [[nodiscard]] int64_t rows() const override { return kRows; }
  [[nodiscard]] const data::Labels& labels() const override { return labels_; }
  [[nodiscard]] uint64_t content_hash() const override { return 1; }
  [[nodiscard]] int64_t most_values() const override { return 2; }
  [[nodiscard]] std::optional<size_t> find_column(std::string_view name) const override {
    return name == data::kWeightColumn ? std::optional<size_t>(1) : std::nullopt;
  }
  void read_columns(int64_t row, data::RowColumns& out) const override {
    out.clear();
    out.add_integers(1)[0] = static_cast<int32_t>(row % 2);
    out.add_reals(1)[0] = static_cast<float>(1 + row % 4);
  }
  void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const override {
    for (size_t i = 0; i < rows.size(); ++i) lengths[i] = length_of(rows[i]);
  }
  void fill(const data::MicroBatch& batch, const data::BatchBuffers& buffers) const override {
    for (int64_t i = 0; i < batch.size; ++i) {
      const int64_t row = batch.rows[static_cast<size_t>(batch.first_slot + i)];
      if (row == broken_) throw Error(ErrorCode::bad_data, "rows", "a row is damaged");
      for (int64_t t = 0; t < batch.bucket_length; ++t) {
        const auto at = static_cast<size_t>(i * batch.bucket_length + t);
        const bool is_there = t < length_of(row);
        buffers.input_ids[at] = is_there ? static_cast<int32_t>(1 + row + t) : batch.pad_id;
        buffers.token_type_ids[at] = is_there ? static_cast<int32_t>(t % 2) : 0;
        buffers.attention_mask[at] = is_there ? 1 : 0;
      }
    }
  }

 private:
  static int32_t length_of(int64_t row) { return 3 + static_cast<int32_t>(row % 10); }
  int64_t broken_;
  data::Labels labels_;
};

// A run on such rows, which reads ahead or does not.
class Reader {
 public:
  Reader(bool reads_ahead, int64_t batches, int64_t broken = -1)
      : model_(fitted_model(TestRun::bert_config("all", 1.0))),
        rows_(broken),
        sampler_(data::Subset::all(kRows),
                 [this](auto ids, auto lengths) { rows_.read_lengths(ids, lengths); },
                 {.batch_size = kBatch, .seed = 3, .buckets = {8, 12}, .drops_remainder = true}),
        session_(plan(model_, reads_ahead)),
        stream_({.rows = &rows_, .task = model_.task, .pad_id = 0, .longest = 12}, sampler_,
                session_, batches) {}

  BatchStream& stream() { return stream_; }
  [[nodiscard]] const PlanReport& report() const { return session_.plan(); }

  // What the session is fed of the batch, micro-batch by micro-batch.
  std::vector<std::byte> fed() {
    std::vector<std::byte> all;
    const int64_t rows = stream_.rows();
    for (int64_t first = 0; first < rows; first += kMicroBatch) {
      const int64_t count = std::min(kMicroBatch, rows - first);
      std::vector<std::vector<std::byte>> values;
      std::vector<RowSlot> slots;
      for (const RowSlot& each : session_.row_slots(stream_.length())) {
        const int64_t bytes = count * element_bytes(each.dtype) * element_count(each.row_shape);
        slots.push_back({.input = each.input,
                         .dtype = each.dtype,
                         .row_shape = each.row_shape,
                         .length = each.length,
                         .padding = each.padding,
                         .first_row = first,
                         .rows = count,
                         .bytes = values.emplace_back(static_cast<size_t>(bytes))});
      }
      stream_.fill_all(slots);
      for (const auto& each : values) all.insert(all.end(), each.begin(), each.end());
    }
    return all;
  }

 private:
  static SessionPlan plan(const run_model::Model& model, bool reads_ahead) {
    SessionOptions options = session_options_of(training_spec(TestRun::bert_config("all", 1.0), 9));
    options.batch_rows = kBatch;
    options.micro_batch_size = kMicroBatch;
    options.lengths = {8, 12};
    options.memory = parse_memory("1GiB");
    options.threads = 1;
    return session::plan_session(run_model::network_of(model),
                                 {.options = std::move(options), .reads_ahead = reads_ahead});
  }

  run_model::Model model_;
  MemoryRows rows_;
  data::TrainSampler sampler_;
  Session session_;
  BatchStream stream_;
};

TEST(BatchStream, rows_read_ahead_are_those_that_are_read_when_asked_for) {
  constexpr int64_t kBatches = 11;  // more than two epochs
  Reader ahead(true, kBatches);
  Reader direct(false, kBatches);
  ASSERT_GT(ahead.report().read_ahead_bytes, 0);
  ASSERT_EQ(direct.report().read_ahead_bytes, 0);
  for (int64_t i = 0; i < kBatches; ++i) {
    const std::string where = "batch " + std::to_string(i);
    ahead.stream().next();
    direct.stream().next();
    const data::BatchPlan& a = ahead.stream().batch();
    const data::BatchPlan& b = direct.stream().batch();
    EXPECT_EQ(std::vector(a.rows.begin(), a.rows.end()), std::vector(b.rows.begin(), b.rows.end()))
        << where;
    EXPECT_EQ(a.epoch, b.epoch) << where;
    EXPECT_EQ(a.batch, b.batch) << where;
    EXPECT_EQ(a.next_epoch, b.next_epoch) << where;
    EXPECT_EQ(a.next_batch, b.next_batch) << where;
    EXPECT_EQ(ahead.stream().length(), direct.stream().length()) << where;
    EXPECT_EQ(ahead.fed(), direct.fed()) << where;
    for (const char* input : {kRowWeights, models::kLabels, models::kInputIds})
      EXPECT_EQ(ahead.stream().total_weight(input), direct.stream().total_weight(input)) << where;
  }
  EXPECT_GT(direct.stream().waited().count(), 0);
}

TEST(BatchStream, a_row_that_cannot_be_read_is_an_error_of_its_batch) {
  Reader ahead(true, 4, 7);
  Reader direct(false, 4, 7);
  int64_t good = 0;
  const auto read_all = [&](Reader& run) {
    good = 0;
    for (int64_t i = 0; i < 4; ++i, ++good) {
      run.stream().next();
      (void)run.fed();
    }
  };
  EXPECT_THROW(read_all(direct), Error);
  const int64_t until = good;
  EXPECT_THROW(read_all(ahead), Error);
  EXPECT_EQ(good, until);
}

TEST(BatchStream, ends_while_it_reads_ahead) {
  for (int64_t drawn = 0; drawn < 3; ++drawn) {
    Reader run(true, 1000);
    for (int64_t i = 0; i < drawn; ++i) run.stream().next();
  }
}

TEST(BatchStream, draws_no_more_than_it_is_asked_for) {
  Reader run(true, 1);
  run.stream().next();
  EXPECT_EQ(run.stream().batch().next_batch, 1);
  EXPECT_EQ(run.fed().size() > 0, true);
}

}  // namespace
}  // namespace snug::train
