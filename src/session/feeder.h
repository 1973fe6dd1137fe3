// SPDX-License-Identifier: Apache-2.0
// Brings the rows of a source into the engine, micro-batch by micro-batch, with what the means over
// the whole batch are divided by.
#pragma once

#include <vector>

#include "network/facts.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug {

class Feeder : public train::BatchSource {
 public:
  /// `inputs`: those that are read from the source; the rest is zero. Reads ahead what rows weigh.
  /// `micro_batch` and the totals are of the engine's plan. Throws Error{bad_data} for a source
  /// without rows or whose rows weigh nothing.
  Feeder(const train::Engine& engine, const NetworkFacts& facts, const RowSource& source,
         uint64_t seed, const std::vector<std::string>& inputs);

  [[nodiscard]] int64_t rows() const override { return source_.rows(); }
  [[nodiscard]] Lengths length() const override { return source_.length(); }
  void fill(const train::Engine& engine, int64_t first_slot, int64_t drawn) const override;

 private:
  void fill_input(const train::Engine& engine, const FedInput& input, int64_t first_row,
                  int64_t rows) const;
  [[nodiscard]] double total_of(const train::Engine& engine, const MeanTotal& mean) const;
  [[nodiscard]] bool is_label(const FedInput& input) const;
  [[nodiscard]] Shape padded(const FedInput& input) const;

  const NetworkFacts& facts_;
  const RowSource& source_;
  uint64_t seed_;
  Lengths padded_to_;
  std::vector<std::string> inputs_;
  std::vector<double> totals_;  // by mean
};

}  // namespace snug
