// SPDX-License-Identifier: Apache-2.0
// One update of a planned network: all micro-batches of a global batch, then the optimizer. Where
// the rows come from is the caller's affair.
#pragma once

#include <cstdint>
#include <vector>

#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "session/engine.h"
#include "snug/session.h"

namespace snug::train {

/// What the updates of a run are fed, beside their batches; formed once.
struct UpdateRule {
  optim::Options optimizer;
  optim::Schedule schedule;
  std::vector<double> rates;  // the highest of every group of parameters (kHyperName)
};

/// The rows of one global batch.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  [[nodiscard]] virtual int64_t rows() const = 0;
  /// Of the longest rows: decides the program.
  [[nodiscard]] virtual Lengths length() const = 0;
  /// Fills every input of slots [first_slot, first_slot + micro-batch); those behind the last row
  /// have no weight. `drawn`: UpdateCounts::drawn.
  virtual void fill(const Engine& engine, int64_t first_slot, int64_t drawn) const = 0;
};

/// Every micro-batch of `batch`, forward and backward, and what the program does behind; gives the
/// loss. Runs the prologue first.
double run_pieces(Engine& engine, const BatchSource& batch, int64_t drawn);

struct UpdateResult {
  double loss = 0;
  double grad_norm = 0;
};
/// `done` counts what came before it.
[[nodiscard]] UpdateResult run_update(Engine& engine, const BatchSource& batch,
                                      const UpdateCounts& done, const UpdateRule& rule,
                                      const StepOptions& options = {});

}  // namespace snug::train
