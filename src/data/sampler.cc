// SPDX-License-Identifier: Apache-2.0
// Windows, batches and buckets of sampler.h.
#include "data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "data/cache_format.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr int64_t kMaxBatchSize = int64_t{1} << 31;

void check_options(const Subset& part, const SamplerOptions& options) {
  if (options.batch_size < 1 || options.batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::bad_config, "train_batch_size",
                "a batch of " + std::to_string(options.batch_size) + " rows is out of range",
                "use a number from 1 to " + std::to_string(kMaxBatchSize));
  }
  if (part.size() == 0) throw Error(ErrorCode::bad_data, "data", "there is no row to draw from");
  SNUG_CHECK(!options.buckets.empty(), "a sampler needs bucket lengths");
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void reserve(SampleWindow& window, int64_t part_size, int64_t batch_size) {
  const auto most = static_cast<size_t>(std::min(part_size, kWindowBatches * batch_size));
  window.rows.reserve(most);
  window.lengths.reserve(most);
  window.drawn.reserve(most);
  window.drawn_lengths.reserve(most);
  window.order.reserve(most);
}

// Sorts [begin, end) of window.order, positions in the drawn rows, by (length, position): as one
// number each, which no comparison has to look up.
void sort_by_length(SampleWindow& window, int64_t begin, int64_t end) {
  constexpr int kPositionBits = 40;
  static_assert(kMaxBatchSize * kWindowBatches < int64_t{1} << kPositionBits);
  static_assert(kMaxSequenceLength < int64_t{1} << (63 - kPositionBits));
  const auto first = window.order.begin() + begin;
  const auto last = window.order.begin() + end;
  for (auto each = first; each != last; ++each)
    *each |= int64_t{window.drawn_lengths[*each]} << kPositionBits;
  std::sort(first, last);
  for (auto each = first; each != last; ++each) *each &= (int64_t{1} << kPositionBits) - 1;
}

// window.drawn is filled: reads lengths and makes room for the rest.
void read_lengths(SampleWindow& window, const LengthsFn& lengths) {
  const size_t count = window.drawn.size();
  window.rows.resize(count);
  window.lengths.resize(count);
  window.drawn_lengths.resize(count);
  window.order.resize(count);
  lengths(window.drawn, window.drawn_lengths);
  std::iota(window.order.begin(), window.order.end(), 0);
}

// Copies `count` drawn rows, taken through window.order from `from` on, to slots from `to` on.
void place(SampleWindow& window, int64_t from, int64_t to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t drawn = window.order[from + i];
    window.rows[to + i] = window.drawn[drawn];
    window.lengths[to + i] = window.drawn_lengths[drawn];
  }
}

BatchPlan batch_of(const SampleWindow& window, int64_t batch, const SamplerOptions& options) {
  const int64_t begin = (batch - window.index * kWindowBatches) * options.batch_size;
  const int64_t count =
      std::min(options.batch_size, static_cast<int64_t>(window.rows.size()) - begin);
  BatchPlan plan;
  plan.epoch = window.epoch;
  plan.batch = batch;
  plan.rows =
      std::span(window.rows).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) plan.tokens += window.lengths[begin + i];
  // Rows of a batch ascend in length.
  plan.max_length = window.lengths[begin + count - 1];
  plan.bucket_length = bucket_of(options.buckets, plan.max_length);
  return plan;
}

std::vector<BucketCount> empty_histogram(const std::vector<int32_t>& buckets) {
  std::vector<BucketCount> histogram;
  for (int32_t length : buckets) histogram.push_back({.bucket_length = length, .batches = 0});
  return histogram;
}

void count_batches(std::vector<BucketCount>& histogram, const SampleWindow& window,
                   const SamplerOptions& options) {
  const int64_t batches = ceil_div(static_cast<int64_t>(window.rows.size()), options.batch_size);
  for (int64_t i = 0; i < batches; ++i) {
    const BatchPlan plan = batch_of(window, window.index * kWindowBatches + i, options);
    for (BucketCount& bucket : histogram) {
      if (bucket.bucket_length == plan.bucket_length) ++bucket.batches;
    }
  }
}

}  // namespace

std::vector<int32_t> bucket_lengths(int32_t max_seq_length, int32_t data_max_length) {
  SNUG_CHECK(max_seq_length >= 1 && data_max_length >= 0, "lengths must be positive");
  const int64_t top = std::min<int64_t>(max_seq_length, round_up(std::max(data_max_length, 1), 8));
  std::vector<int32_t> buckets;
  for (int64_t length = 8; length < top;) {
    buckets.push_back(static_cast<int32_t>(length));
    length += length < 32 ? 8 : length < 64 ? 16 : length < 128 ? 32 : length < 512 ? 64 : 128;
  }
  buckets.push_back(static_cast<int32_t>(top));
  return buckets;
}

int32_t bucket_of(std::span<const int32_t> buckets, int32_t length) {
  const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), length);
  SNUG_CHECK(bucket != buckets.end(), "a row is longer than the largest bucket");
  return *bucket;
}

TrainSampler::TrainSampler(Subset part, LengthsFn lengths, SamplerOptions options)
    : part_(part), lengths_(std::move(lengths)), options_(std::move(options)) {
  check_options(part_, options_);
  const int64_t batch_size = options_.batch_size;
  drawn_rows_ = options_.drops_remainder ? part_.size() / batch_size * batch_size : part_.size();
  if (drawn_rows_ == 0) {
    throw Error(ErrorCode::bad_data, "data",
                "there are " + std::to_string(part_.size()) + " rows to train on, fewer than one " +
                    "whole batch of " + std::to_string(batch_size) + ", which batch norm needs",
                "set train_batch_size to at most " + std::to_string(part_.size()));
  }
}

int64_t TrainSampler::batches_per_epoch() const {
  return ceil_div(drawn_rows_, options_.batch_size);
}

void TrainSampler::load(SampleWindow& window, int64_t epoch, int64_t index) const {
  const int64_t batch_size = options_.batch_size;
  const int64_t full_batches =
      std::clamp<int64_t>(drawn_rows_ / batch_size - index * kWindowBatches, 0, kWindowBatches);
  const int64_t first = index * kWindowBatches * batch_size;
  const int64_t count = std::min(drawn_rows_ - first, kWindowBatches * batch_size);
  SNUG_CHECK(count > 0, "a window past the end of the epoch");
  reserve(window, drawn_rows_, batch_size);
  window.index = -1;  // not valid until the lengths are read
  window.drawn.resize(count);
  if (options_.draw) {
    for (int64_t i = 0; i < count; ++i) window.drawn[i] = options_.draw(epoch, first + i);
  } else {
    std::iota(window.drawn.begin(), window.drawn.end(), first);
    Permutation(part_.size(), options_.seed, epoch_stream(epoch)).map(window.drawn);
    part_.rows(window.drawn);
  }
  read_lengths(window, lengths_);
  const int64_t full_rows = full_batches * batch_size;
  const int64_t sorted_rows = options_.groups_by_length ? full_rows : batch_size;
  for (int64_t begin = 0; begin < full_rows; begin += sorted_rows)
    sort_by_length(window, begin, begin + sorted_rows);
  sort_by_length(window, full_rows, count);
  const Permutation shuffle(full_batches, options_.seed, window_stream(epoch, index));
  for (int64_t i = 0; i < full_batches; ++i) {
    place(window, i * batch_size, shuffle(i) * batch_size, batch_size);
  }
  place(window, full_rows, full_rows, count - full_rows);
  window.epoch = epoch;
  window.index = index;
}

BatchPlan TrainSampler::next() {
  const int64_t index = batch_ / kWindowBatches;
  if (window_.epoch != epoch_ || window_.index != index) load(window_, epoch_, index);
  BatchPlan plan = batch_of(window_, batch_, options_);
  if (++batch_ == batches_per_epoch()) {
    batch_ = 0;
    ++epoch_;
  }
  plan.next_epoch = epoch_;
  plan.next_batch = batch_;
  return plan;
}

void TrainSampler::seek(int64_t epoch, int64_t batch) {
  // A position saved at the very end of an epoch is the beginning of the next one.
  if (batch == batches_per_epoch()) {
    ++epoch;
    batch = 0;
  }
  if (epoch < 0 || batch < 0 || batch > batches_per_epoch()) {
    throw Error(ErrorCode::bad_data, "data",
                "position epoch " + std::to_string(epoch) + ", batch " + std::to_string(batch) +
                    " does not exist: an epoch has " + std::to_string(batches_per_epoch()) +
                    " batches",
                "resume with the data and the train_batch_size of the checkpoint");
  }
  epoch_ = epoch;
  batch_ = batch;
}

std::vector<BucketCount> TrainSampler::bucket_histogram(int64_t epoch) const {
  std::vector<BucketCount> histogram = empty_histogram(options_.buckets);
  SampleWindow window;
  for (int64_t index = 0; index < ceil_div(batches_per_epoch(), kWindowBatches); ++index) {
    load(window, epoch, index);
    count_batches(histogram, window, options_);
  }
  return histogram;
}

EvalSampler::EvalSampler(Subset part, LengthsFn lengths, SamplerOptions options)
    : part_(part), lengths_(std::move(lengths)), options_(std::move(options)) {
  check_options(part_, options_);
}

int64_t EvalSampler::batches() const { return ceil_div(part_.size(), options_.batch_size); }

void EvalSampler::load(SampleWindow& window, int64_t index) const {
  const int64_t first = index * kWindowBatches * options_.batch_size;
  const int64_t count = std::min(part_.size() - first, kWindowBatches * options_.batch_size);
  reserve(window, part_.size(), options_.batch_size);
  window.index = -1;
  window.drawn.resize(count);
  for (int64_t i = 0; i < count; ++i) window.drawn[i] = part_.row(first + i);
  read_lengths(window, lengths_);
  sort_by_length(window, 0, count);
  place(window, 0, 0, count);
  window.epoch = 0;
  window.index = index;
}

bool EvalSampler::next(BatchPlan& plan) {
  if (batch_ >= batches()) return false;
  const int64_t index = batch_ / kWindowBatches;
  if (window_.index != index) load(window_, index);
  plan = batch_of(window_, batch_++, options_);
  return true;
}

std::vector<BucketCount> EvalSampler::bucket_histogram() const {
  std::vector<BucketCount> histogram = empty_histogram(options_.buckets);
  SampleWindow window;
  for (int64_t index = 0; index < ceil_div(batches(), kWindowBatches); ++index) {
    load(window, index);
    count_batches(histogram, window, options_);
  }
  return histogram;
}

}  // namespace snug::data
