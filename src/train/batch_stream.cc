// SPDX-License-Identifier: Apache-2.0
#include "train/batch_stream.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/float_mode.h"
#include "base/given_threads.h"
#include "base/units.h"
#include "snug/error.h"

namespace snug::train {
namespace {

using Seconds = std::chrono::duration<double>;

// Adds the time of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(Seconds& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += std::chrono::steady_clock::now() - start_; }

 private:
  Seconds& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int64_t bytes_of(const RowSlot& slot, int64_t rows) {
  return rows * element_bytes(slot.dtype) * element_count(slot.row_shape);
}

// Places begin where any type may.
int64_t place_of(const RowSlot& slot, int64_t rows) {
  return round_up(bytes_of(slot, rows), alignof(std::max_align_t));
}

}  // namespace

HeldBatch::HeldBatch(const FeedContext& context, data::TrainSampler& sampler,
                     const Session& session)
    : source_(context), sampler_(sampler) {
  const int64_t batch_rows = session.plan().train_batch_size;
  int64_t most_bytes = 0;
  size_t most_slots = 0;
  for (const PlannedLength& each : session.plan().lengths) {
    Program& program = programs_.emplace_back(Program{each.length, session.row_slots(each.length)});
    int64_t bytes = 0;
    for (const RowSlot& slot : program.slots) bytes += place_of(slot, batch_rows);
    most_bytes = std::max(most_bytes, bytes);
    most_slots = std::max(most_slots, program.slots.size());
  }
  values_.resize(static_cast<size_t>(most_bytes));
  slots_.reserve(most_slots);
  rows_.reserve(static_cast<size_t>(batch_rows));
}

void HeldBatch::read() {
  batch_ = sampler_.next();
  rows_.assign(batch_.rows.begin(), batch_.rows.end());  // the sampler's are its own
  batch_.rows = rows_;
  source_.begin(batch_);
  const auto program = std::ranges::find_if(
      programs_, [&](const Program& each) { return each.length.holds(length()); });
  SNUG_CHECK(program != programs_.end(), "a batch longer than every program");
  slots_.clear();
  int64_t begin = 0;
  for (const RowSlot& each : program->slots) {
    const auto bytes = std::span(values_).subspan(static_cast<size_t>(begin));
    slots_.push_back({.input = each.input,
                      .dtype = each.dtype,
                      .row_shape = each.row_shape,
                      .length = each.length,
                      .padding = each.padding,
                      .first_row = 0,
                      .rows = rows(),
                      .bytes = bytes.first(static_cast<size_t>(bytes_of(each, rows())))});
    begin += place_of(each, rows());
  }
  weight_ = source_.fill_weighed(slots_);
}

void HeldBatch::fill(const RowSlot& slot) const {
  const auto held =
      std::ranges::find_if(slots_, [&](const RowSlot& each) { return each.input == slot.input; });
  SNUG_CHECK(held != slots_.end() && held->row_shape == slot.row_shape,
             "an input that is not held");
  std::memcpy(slot.bytes.data(), held->bytes.data() + bytes_of(slot, slot.first_row),
              slot.bytes.size());
}

std::optional<double> HeldBatch::total_weight(const std::string& input) const {
  return BatchRows::is_weighed_by(input) ? std::optional(weight_) : std::nullopt;
}

class BatchStream::Ahead {
 public:
  Ahead(const FeedContext& context, data::TrainSampler& sampler, const Session& session,
        int64_t batches)
      : held_(std::make_unique<HeldBatch>(context, sampler, session)),
        next_(std::make_unique<HeldBatch>(context, sampler, session)),
        left_(batches) {
    ask();
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw no_thread("read rows ahead", error);
    }
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead() {
    {
      const std::scoped_lock lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// The batch that was read, and asks for the one behind it.
  const HeldBatch& next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_asked_; });
    if (failure_) std::rethrow_exception(failure_);
    std::swap(held_, next_);
    ask();
    lock.unlock();
    changed_.notify_all();
    return *held_;
  }

 private:
  void ask() { is_asked_ = left_-- > 0; }

  void work() {
    const DefaultFloatMode float_mode;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_asked_ || is_ended_; });
      if (is_ended_) return;
      lock.unlock();
      try {
        next_->read();
      } catch (...) {
        failure_ = std::current_exception();
      }
      lock.lock();
      is_asked_ = false;
      changed_.notify_all();
    }
  }

  std::unique_ptr<HeldBatch> held_, next_;  // `next_` is the thread's while it is asked for
  int64_t left_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;
  bool is_ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

BatchStream::BatchStream(const FeedContext& context, data::TrainSampler& sampler,
                         const Session& session, int64_t batches)
    : sampler_(sampler), rows_(context), source_(&rows_) {
  if (session.plan().read_ahead_bytes > 0 && batches > 0)
    ahead_ = std::make_unique<Ahead>(context, sampler, session, batches);
}

BatchStream::~BatchStream() = default;

void BatchStream::next() {
  const Stopwatch watch(waited_);
  if (ahead_ == nullptr) {
    batch_ = sampler_.next();
    rows_.begin(batch_);
    return;
  }
  const HeldBatch& held = ahead_->next();
  batch_ = held.batch();
  source_ = &held;
}

void BatchStream::fill_all(std::span<const RowSlot> slots) const {
  const Stopwatch watch(waited_);
  source_->fill_all(slots);
}

std::optional<double> BatchStream::total_weight(const std::string& input) const {
  const Stopwatch watch(waited_);
  return source_->total_weight(input);
}

}  // namespace snug::train
