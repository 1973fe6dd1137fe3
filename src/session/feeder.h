// SPDX-License-Identifier: Apache-2.0
// Brings the rows of a source into the engine, micro-batch by micro-batch, with what the means over
// the whole batch are divided by. Nothing allocates after the first batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "network/facts.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug::session {

/// What a program is fed from rows; made once.
struct ProgramInputs {
  struct Input {
    std::string name;
    DType dtype = DType::f32;
    Shape row_shape;                         // in this program
    std::optional<std::string> length = {};  // RowSlot's
    int32_t padding = 0;
    int64_t row_bytes = 0;
    bool is_weight = false;
    bool is_read = true;  // from the source; otherwise it is zero
  };
  std::vector<Input> inputs;
};
/// The network's inputs that the program has. `is_read`: those that are read from a source.
[[nodiscard]] ProgramInputs inputs_of(const Graph& graph, const NetworkFacts& facts);
/// Only for the outputs: what nothing but the loss depends on is not read.
[[nodiscard]] ProgramInputs inputs_of_outputs(const Graph& graph, const NetworkFacts& facts);

/// What a source is asked to fill of a row, with neither rows nor bytes. Refers to `inputs`.
[[nodiscard]] std::vector<RowSlot> row_slots(const ProgramInputs& inputs);

class Feeder : public BatchSource {
 public:
  Feeder(Engine& engine, const NetworkFacts& facts, int64_t seed);

  /// A new batch; refers to both until the next. Reads ahead what rows weigh. Throws
  /// Error{bad_data} for a source without rows or whose rows weigh nothing.
  void begin(const RowSource& source, const ProgramInputs& inputs);

  [[nodiscard]] int64_t rows() const override { return source_->rows(); }
  [[nodiscard]] Lengths length() const override { return source_->length(); }
  void fill(Engine& engine, int64_t first_slot, int64_t drawn) const override;

 private:
  using Input = ProgramInputs::Input;
  void check_source() const;
  [[nodiscard]] bool is_read(const Input& input) const;
  [[nodiscard]] std::span<std::byte> stage(const Input& input) const;
  void feed_totals(Engine& engine, int64_t rows) const;
  [[nodiscard]] double total_of(const network::MeanTotal& mean) const;
  [[nodiscard]] double sum_of(const Input& input) const;

  Engine& engine_;
  const NetworkFacts& facts_;
  struct RandomKey {
    std::string name;
    int64_t seed = 0;
  };
  std::vector<RandomKey> random_keys_;
  const RowSource* source_ = nullptr;
  const ProgramInputs* inputs_ = nullptr;
  std::vector<double> totals_;  // by mean
  // Slots of the micro-batch that is filled: what the source fills, and all of every input.
  mutable std::vector<RowSlot> slots_;
  mutable std::vector<std::span<std::byte>> staged_;
};

}  // namespace snug::session
