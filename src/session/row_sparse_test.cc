// SPDX-License-Identifier: Apache-2.0
// Sums of the gradients of a table hold only the rows that occur in an update, with the bits of the
// whole sums.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "session/testing.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kWords = 200;
constexpr int64_t kWidth = 24;
constexpr int64_t kRows = 6;
constexpr int64_t kLength = 5;

enum class Read : uint8_t { once, in_every_step, summed };

// What is added to the table's gradient beside its rows is 0 everywhere, but it is whole.
Network words(Read read, bool is_whole) {
  return {"words", [=](NetworkBuilder& b) {
            const Tensor table = b.parameter("table", {kWords, kWidth}, InitRule::fan_in(kWidth));
            const Tensor ids = b.input("ids", {kLength}, DType::i32);
            Tensor x;
            if (read == Read::once) x = reduce_sum(gelu(gather_rows(table, ids)), {1});
            if (read == Read::summed) x = gather_sum(table, ids, b.input("weights", {kLength}));
            for (int64_t t = 0; read == Read::in_every_step && t < kLength; ++t) {
              const Tensor id = reshape(slice(ids, 1, t, t + 1), {b.rows()});
              const Tensor word = gather_rows(table, id);
              x = t == 0 ? word
                         : tanh(matmul(x, b.parameter("step." + std::to_string(t), {kWidth, kWidth},
                                                      InitRule::fan_in(kWidth))) +
                                word);
            }
            if (is_whole)
              x = x + gather_rows(0.0 * table, reshape(slice(ids, 1, 0, 1), {b.rows()}));
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<int32_t> ids, label;
  std::vector<float> weights;
  explicit Data(int64_t update, int64_t rows = kRows) {
    for (int64_t i = 0; i < rows; ++i) {
      label.push_back(static_cast<int32_t>((i + update) % 3));
      for (int64_t t = 0; t < kLength; ++t) {
        // Some words come again in the row, in the batch and in later updates.
        ids.push_back(static_cast<int32_t>((i * 31 + t * t * 17 + update * 5) % kWords));
        weights.push_back(static_cast<float>(t % 3));
      }
    }
  }
  [[nodiscard]] Rows rows(Read read) const {
    Rows rows(std::ssize(label));
    rows.add("ids", std::span(ids)).add("label", std::span(label));
    if (read == Read::summed) rows.add("weights", std::span(weights));
    return rows;
  }
};

SessionOptions options_of(const std::string& optim, int64_t micro_batch) {
  return {.batch_rows = kRows,
          .memory = parse_memory("64MiB"),
          .micro_batch_size = micro_batch,
          .optim = optim,
          .learning_rate = 0.01,
          .weight_decay = 0.1,
          .max_grad_norm = 0,  // a norm of rows adds up in another order
          .threads = 2};
}

// After four updates, the last of a batch that is not whole.
std::string trained(Read read, bool is_whole, const SessionOptions& options,
                    int64_t* gradient_bytes = nullptr) {
  Session session(words(read, is_whole), options);
  if (gradient_bytes != nullptr) *gradient_bytes = bytes_of_part(session.plan(), "gradients");
  for (int64_t update = 0; update < 4; ++update)
    (void)session.step(Data(update, update == 3 ? kRows - 1 : kRows).rows(read));
  return bytes_of(session);
}

class RowSparse : public testing::TestWithParam<Read> {};

TEST_P(RowSparse, sums_over_micro_batches_have_the_bits_of_whole_ones) {
  for (const char* optim : {"adamw", "sgd", "lion", "adagrad"}) {
    for (const int64_t micro_batch : {1, 2, 4}) {
      const SessionOptions options = options_of(optim, micro_batch);
      int64_t sparse_bytes = 0;
      int64_t whole_bytes = 0;
      EXPECT_TRUE(trained(GetParam(), false, options, &sparse_bytes) ==
                  trained(GetParam(), true, options, &whole_bytes))
          << optim << ", micro-batch " << micro_batch;
      // The rows of a batch instead of those of the table.
      const int64_t rows = kRows * kLength;
      const int64_t saved = (kWords - rows) * kWidth * 4 - kWords * 4;
      EXPECT_GE(whole_bytes - sparse_bytes, saved - 64) << optim << ", micro-batch " << micro_batch;
    }
  }
}

TEST_P(RowSparse, a_batch_whose_rows_are_refused_leaves_nothing_in_the_sums) {
  const SessionOptions options = options_of("adamw", 2);
  Session session(words(GetParam(), false), options);
  Session fresh(words(GetParam(), false), options);
  Data bad(7);
  bad.ids.back() = kWords;
  EXPECT_THROW((void)session.step(bad.rows(GetParam())), Error);
  for (Session* each : {&session, &fresh}) (void)each->step(Data(1).rows(GetParam()));
  EXPECT_TRUE(bytes_of(session) == bytes_of(fresh));
}

INSTANTIATE_TEST_SUITE_P(Reads, RowSparse,
                         testing::Values(Read::once, Read::in_every_step, Read::summed),
                         [](const auto& param) {
                           return std::string(param.param == Read::once     ? "once"
                                              : param.param == Read::summed ? "summed"
                                                                            : "in_every_step");
                         });

// With one micro-batch a table that is read in every step is summed up in a state, too.
TEST(RowSparse, uses_in_one_micro_batch_have_the_bits_of_the_whole_sum) {
  const SessionOptions options = options_of("adamw", kRows);
  int64_t sparse_bytes = 0;
  int64_t whole_bytes = 0;
  EXPECT_TRUE(trained(Read::in_every_step, false, options, &sparse_bytes) ==
              trained(Read::in_every_step, true, options, &whole_bytes));
  EXPECT_LT(sparse_bytes, whole_bytes);
}

TEST(RowSparse, adafactor_takes_whole_gradients) {
  int64_t bytes = 0;
  SessionOptions options = options_of("adafactor", 2);
  (void)trained(Read::once, false, options, &bytes);
  EXPECT_GE(bytes, kWords * kWidth * 4);
}

}  // namespace
}  // namespace snug::session
