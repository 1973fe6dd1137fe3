// SPDX-License-Identifier: Apache-2.0
// Which rows form which global batch. A pure function of (row lengths, seed, batch size, bucket
// lengths): not of the budget, the split into micro-batches or the threads. Memory: a window of
// kWindowBatches batches.
//
// Design: an epoch is a keyed permutation of the part, or as many draws from it; inside windows of
// kWindowBatches batches rows are sorted by length (ties keep the permuted order), cut into
// batches, and the batches shuffled by key, so lengths in a batch are alike and batches come in
// random order. The remainder (part size mod batch size) is cut off before sorting, as the last
// rows of the permutation, and is the last batch of the epoch: a random sample, not always the
// longest rows. Where lengths are not grouped, every batch is a random sample; its rows are sorted
// all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "data/split.h"

namespace snug::data {

inline constexpr int64_t kWindowBatches = 64;

/// Writes the length in tokens of each row id, e.g. TokenCache::read_lengths.
using LengthsFn = std::function<void(std::span<const int64_t> rows, std::span<int32_t> lengths)>;

/// Padded lengths, ascending: multiples of 8 up to 32, of 16 up to 64, of 32 up to 128, of 64 up to
/// 512, then of 128; the last is min(max_seq_length, data_max_length rounded up to 8), so the
/// largest step is no larger than the data need.
[[nodiscard]] std::vector<int32_t> bucket_lengths(int32_t max_seq_length, int32_t data_max_length);
/// The smallest bucket that holds `length`.
[[nodiscard]] int32_t bucket_of(std::span<const int32_t> buckets, int32_t length);

/// One global batch. `rows` points into the sampler until its next call; slot s of the batch is
/// rows[s].
struct BatchPlan {
  int64_t epoch = 0;
  int64_t batch = 0;       // in the epoch
  int64_t next_epoch = 0;  // in training: of the batch behind it
  int64_t next_batch = 0;
  std::span<const int64_t> rows{};
  int64_t tokens = 0;  // of all rows
  int32_t max_length = 0;
  int32_t bucket_length = 0;
};

struct BucketCount {
  int32_t bucket_length = 0;
  int64_t batches = 0;
  bool operator==(const BucketCount&) const = default;
};

struct SamplerOptions {
  int64_t batch_size = 0;
  uint64_t seed = 0;
  std::vector<int32_t> buckets{};  // from bucket_lengths
  bool drops_remainder = false;    // training: every batch is whole; other rows each epoch
  bool groups_by_length = true;    // training; false: batches are random samples
  /// Training: the row of a draw, in place of each row of the part once (balanced_rows.h).
  std::function<int64_t(int64_t epoch, int64_t number)> draw{};
};

/// The rows of a window and the batches they form; one per sampler, its memory reused.
struct SampleWindow {
  int64_t epoch = -1;
  int64_t index = -1;
  IndexVector<int64_t> rows{};     // by slot: batch after batch
  IndexVector<int32_t> lengths{};  // of `rows`
  IndexVector<int64_t> drawn{};    // as drawn, before sorting
  IndexVector<int32_t> drawn_lengths{};
  IndexVector<int64_t> order{};  // positions in `drawn`, sorted by length
};

/// Endless batches for training, epoch after epoch. Not thread-safe.
class TrainSampler {
 public:
  /// Throws Error{bad_config} for a batch size below 1, Error{bad_data} for an empty part.
  TrainSampler(Subset part, LengthsFn lengths, SamplerOptions options);

  [[nodiscard]] int64_t batches_per_epoch() const;
  /// The next batch; allocates nothing after the first call.
  [[nodiscard]] BatchPlan next();
  /// Makes next() return batch `batch` of epoch `epoch`, exactly as if all before had been drawn.
  void seek(int64_t epoch, int64_t batch);
  /// Position of the batch that next() will return.
  [[nodiscard]] int64_t epoch() const { return epoch_; }
  [[nodiscard]] int64_t batch() const { return batch_; }
  /// Global batches of an epoch by bucket, every bucket listed. Reads every row's length once;
  /// leaves the position alone.
  [[nodiscard]] std::vector<BucketCount> bucket_histogram(int64_t epoch = 0) const;

 private:
  void load(SampleWindow& window, int64_t epoch, int64_t index) const;

  Subset part_;
  LengthsFn lengths_;
  SamplerOptions options_;
  int64_t drawn_rows_ = 0;  // of an epoch
  int64_t epoch_ = 0;
  int64_t batch_ = 0;
  SampleWindow window_;
};

/// Every row of a part once, for evaluation and prediction: part order, sorted by length inside
/// each window. Results are put back in order by row id.
class EvalSampler {
 public:
  EvalSampler(Subset part, LengthsFn lengths, SamplerOptions options);  // the seed is not used

  [[nodiscard]] int64_t batches() const;
  /// False at the end.
  [[nodiscard]] bool next(BatchPlan& plan);
  void rewind() { batch_ = 0; }
  [[nodiscard]] std::vector<BucketCount> bucket_histogram() const;

 private:
  void load(SampleWindow& window, int64_t index) const;

  Subset part_;
  LengthsFn lengths_;
  SamplerOptions options_;
  int64_t batch_ = 0;
  SampleWindow window_;
};

}  // namespace snug::data
