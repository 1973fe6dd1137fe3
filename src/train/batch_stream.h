// SPDX-License-Identifier: Apache-2.0
// The batches of a run, one after the other, as a session reads them.
//
// Design: with bytes for it (PlanReport::read_ahead_bytes) a thread reads the next batch while the
// session computes, all inputs of all of its rows, so that feeding a micro-batch is a copy. Where
// the budget has no bytes left, rows are read when the session asks for them, and so they are where
// their file is in memory: that is faster than waking a thread. All feed the same.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/sampler.h"
#include "snug/session.h"
#include "train/feed.h"

namespace snug::train {

/// The rows of one batch, read before they are asked for. Nothing allocates after construction.
class HeldBatch final : public RowSource {
 public:
  /// For batches of the session's size and lengths. Refers to all three.
  HeldBatch(const FeedContext& context, data::TrainSampler& sampler, const Session& session);

  /// Draws the next batch and reads its rows, which are here until the next read(). Throws what
  /// reading throws.
  void read();

  [[nodiscard]] const data::BatchPlan& batch() const { return batch_; }

  [[nodiscard]] int64_t rows() const override { return std::ssize(rows_); }
  [[nodiscard]] Lengths length() const override { return batch_.bucket_length; }
  void fill(const RowSlot& slot) const override;
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override;

 private:
  /// What the rows of one program are fed.
  struct Program {
    Lengths length;
    std::vector<RowSlot> slots;
  };

  BatchRows source_;
  data::TrainSampler& sampler_;
  std::vector<Program> programs_;  // a batch is of the first that holds it
  std::vector<std::byte> values_;
  std::vector<RowSlot> slots_;  // of all rows of the batch, in `values_`
  std::vector<int64_t> rows_;   // ids
  data::BatchPlan batch_;
  double weight_ = 0;  // of all rows
};

/// The batch that the last next() drew.
class BatchStream final : public RowSource {
 public:
  /// At most `batches` are drawn. Refers to what it is given. Throws Error{unsupported} where no
  /// thread can be had to read ahead.
  BatchStream(const FeedContext& context, data::TrainSampler& sampler, const Session& session,
              int64_t batches);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;
  ~BatchStream() override;

  /// Throws what reading its rows throws; one by one they are also read later.
  void next();

  [[nodiscard]] const data::BatchPlan& batch() const { return batch_; }
  /// What the run waited for rows up to now.
  [[nodiscard]] std::chrono::duration<double> waited() const { return waited_; }

  [[nodiscard]] int64_t rows() const override { return source_->rows(); }
  [[nodiscard]] Lengths length() const override { return source_->length(); }
  void fill(const RowSlot& slot) const override { fill_all({&slot, 1}); }
  void fill_all(std::span<const RowSlot> slots) const override;
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override;

 private:
  /// Two batches, and the thread that reads one while the other is fed.
  class Ahead;

  data::TrainSampler& sampler_;
  BatchRows rows_;  // read when they are asked for
  std::unique_ptr<Ahead> ahead_;
  const RowSource* source_;
  data::BatchPlan batch_;
  mutable std::chrono::duration<double> waited_{0};
};

}  // namespace snug::train
