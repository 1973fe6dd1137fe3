// SPDX-License-Identifier: Apache-2.0
// What a session holds.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/float_mode.h"
#include "session/feeder.h"
#include "session/session_plan.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug::session {

/// One session at a time lives in a caller's block.
class BlockLease {
 public:
  explicit BlockLease(const SessionPlan::Impl& plan);
  ~BlockLease() {
    if (is_leased_ != nullptr) *is_leased_ = false;
  }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

 private:
  std::atomic<bool>* is_leased_;
};

}  // namespace snug::session

namespace snug {

class Session::Impl {
 public:
  /// While a session computes, calls of it from its own callbacks are refused, and the caller's
  /// floating-point environment is put aside.
  class Use {
   public:
    explicit Use(Impl& session);
    ~Use() { session_.is_used_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Impl& session_;
    DefaultFloatMode float_mode_;
  };

  static std::unique_ptr<Impl> open(std::shared_ptr<const SessionPlan::Impl> plan);
  explicit Impl(std::shared_ptr<const SessionPlan::Impl> plan);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// `has_outputs_alone`: what only the loss depends on is not read.
  Evaluation run_eval(const RowSource& rows, const OutputSink& sink, bool has_outputs_alone);
  /// What the program is fed that trains on batches of this length. Throws Error{bad_data} where
  /// none does.
  [[nodiscard]] const session::ProgramInputs& training_inputs(const Lengths& length) const;
  /// Begins a batch that is trained on. Throws Error{bad_data} where it cannot be.
  void feed(const RowSource& batch);
  /// The batch that was begun. What was summed up before rows that failed belongs to no update.
  [[nodiscard]] double gradients();
  [[nodiscard]] session::UpdateResult update(const StepOptions& options);
  void drop_gradients();
  /// Reads the gradients of every weight into `to`, without the scale; all are 0 behind that. The
  /// name of the first that is not finite, or null.
  const std::string* read_gradients(std::map<std::string, std::vector<float>>& to);
  /// Throws Error{bad_config} behind an update that left weights that belong to no model.
  void check_whole() const;
  /// Behind an update: its counts, and the scale of the next.
  void count_update(bool is_skipped);
  void initialize(const std::string& weight, const runtime::ResidentLayout::Entry& entry);
  /// Throws Error{bad_config} for a name that there is not.
  [[nodiscard]] const runtime::ResidentLayout::Entry& entry(const std::string& tensor) const;
  /// The columns of a weight or buffer. Throws Error{bad_config} where these elements are no whole
  /// rows of it.
  [[nodiscard]] int64_t columns_of(const std::string& weight, int64_t first_row,
                                   int64_t elements) const;

  std::shared_ptr<const SessionPlan::Impl> planned;
  session::BlockLease block;
  std::unique_ptr<session::Engine> engine;
  session::Feeder feeder;
  session::KeptBuffers kept_buffers;
  UpdateCounts counts;
  LossScale loss_scale;
  bool has_prologue = false;  // what it makes is of the weights as they are
  bool is_edited = false;     // somebody has a tensor's own elements, and may write them any time
  /// Why the weights are lost, until others are resumed or written; null: they are not.
  const char* loss_of_weights = nullptr;

 private:
  [[nodiscard]] size_t bucket_of(const Lengths& length) const;
  template <class Work>
  auto with_clean_gradients(const Work& work);
  struct Bucket {  // of one length: what its programs are fed, and the shapes of a row's outputs
    session::ProgramInputs training, evaluation, prediction;
    std::map<std::string, Shape> outputs;
  };
  std::vector<Bucket> buckets_;
  std::atomic<bool> is_used_ = false;
};

}  // namespace snug
