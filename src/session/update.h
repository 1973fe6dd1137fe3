// SPDX-License-Identifier: Apache-2.0
// One update of a planned network: all micro-batches of a global batch, then the optimizer. Where
// the rows come from is the caller's affair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "session/engine.h"
#include "snug/session.h"

namespace snug::session {

/// What the updates of a run are fed, beside their batches; formed once.
struct UpdateRule {
  optim::Options optimizer;
  optim::Schedule schedule;
  std::vector<double> rates;  // the highest of every group of parameters (kHyperName)
  optim::LossScaleRule loss_scale = {};
};

/// The rows of one global batch.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  [[nodiscard]] virtual int64_t rows() const = 0;
  /// The lengths of the longest rows, which decide the program.
  [[nodiscard]] virtual Lengths length() const = 0;
  /// Fills every input of slots [first_slot, first_slot + micro-batch); those behind the last row
  /// have no weight. `drawn`: UpdateCounts::drawn.
  virtual void fill(Engine& engine, int64_t first_slot, int64_t drawn) const = 0;
};

/// What running statistics were before an update that may be skipped behind its forward part.
class KeptBuffers {
 public:
  explicit KeptBuffers(const Engine& engine);
  void keep(Engine& engine) const;
  void restore(Engine& engine) const;

 private:
  struct Place {
    std::string buffer, kept;
  };
  std::vector<Place> places_;
};

/// Every micro-batch of `batch`, forward and backward, and what the program does behind; gives the
/// loss. Runs the prologue first. `loss_scale`: what the backward part begins with.
double run_pieces(Engine& engine, const BatchSource& batch, int64_t drawn, double loss_scale);

struct UpdateResult {
  double loss = 0;
  double grad_norm =
      0;  // not finite where gradients overflowed: nothing moved under a dynamic scale
};
/// What came before an update.
struct UpdateStart {
  UpdateCounts counts = {};
  double loss_scale = 1;
};
/// Throws runtime::FailedBehindUpdate where some weights have moved and others have not.
[[nodiscard]] UpdateResult run_update(Engine& engine, const BatchSource& batch,
                                      const UpdateStart& start, const UpdateRule& rule,
                                      const KeptBuffers& kept, const StepOptions& options = {});

}  // namespace snug::session
