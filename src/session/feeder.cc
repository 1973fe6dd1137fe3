// SPDX-License-Identifier: Apache-2.0
#include "session/feeder.h"

#include <algorithm>
#include <cstring>

#include "ops/loss/loss.h"
#include "snug/error.h"

namespace snug {

Feeder::Feeder(const train::Engine& engine, const NetworkFacts& facts, const RowSource& source,
               uint64_t seed, const std::vector<std::string>& inputs)
    : facts_(facts), source_(source), seed_(seed), inputs_(inputs) {
  if (source.rows() < 1)
    throw Error(ErrorCode::bad_data, "rows", "a batch without rows", "give at least one");
  const auto& programs = engine.plan().eval;
  const Lengths longest = source.length();
  if (!programs.back().length.holds(longest))
    throw Error(ErrorCode::bad_data, "rows",
                "rows of length " + to_string(longest) + ", the longest program takes " +
                    to_string(programs.back().length),
                "shorten them, or add a length to SessionOptions::lengths");
  padded_to_ = programs[engine.bucket_of(longest)].length;
  for (const std::string& input : inputs_) {
    if (!source.has(input))
      throw Error(ErrorCode::bad_data, input, "the rows have no values for this input");
  }
  for (const std::string& column : source.columns()) {
    if (std::none_of(facts.inputs.begin(), facts.inputs.end(),
                     [&](const FedInput& input) { return input.name == column; }))
      throw Error(ErrorCode::bad_data, column, "the network has no input of this name",
                  "leave it away, or give it to input()");
  }
  for (const MeanTotal& mean : facts.means) totals_.push_back(total_of(engine, mean));
}

bool Feeder::is_label(const FedInput& input) const {
  return input.dtype == DType::i32 &&
         std::any_of(facts_.means.begin(), facts_.means.end(),
                     [&](const MeanTotal& mean) { return mean.weights == input.name; });
}

Shape Feeder::padded(const FedInput& input) const {
  Shape shape = input.row_shape;
  // Facts are those of the longest program; the length is the first axis of a row.
  if (input.length) shape[0] = padded_to_.of(*input.length);
  return shape;
}

void Feeder::fill_input(const train::Engine& engine, const FedInput& input, int64_t first_row,
                        int64_t rows) const {
  const Shape shape = padded(input);
  const int64_t row_bytes = element_bytes(input.dtype) * element_count(shape);
  std::byte* const to = engine.write<std::byte>(input.name).data();
  const bool is_given = std::find(inputs_.begin(), inputs_.end(), input.name) != inputs_.end();
  if (is_given) {
    source_.fill({.input = input.name,
                  .dtype = input.dtype,
                  .row_shape = shape,
                  .length = input.length,
                  .padding = is_label(input) ? static_cast<int32_t>(kIgnoreIndex) : 0,
                  .first_row = first_row,
                  .rows = rows,
                  .bytes = {to, static_cast<size_t>(rows * row_bytes)}});
  } else {
    std::memset(to, 0, static_cast<size_t>(rows * row_bytes));
  }
  // Rows that fill up the micro-batch are copies of its first: whatever the network computes of
  // them is as finite as that, and weighs nothing.
  for (int64_t row = rows; row < engine.plan().micro_batch; ++row)
    std::memcpy(to + row * row_bytes, to, static_cast<size_t>(row_bytes));
}

double Feeder::total_of(const train::Engine& engine, const MeanTotal& mean) const {
  if (!engine.has(mean.name)) return 1;
  const auto each = static_cast<double>(mean.each);
  const int64_t rows = source_.rows();
  if (mean.weights.empty()) return each * static_cast<double>(rows);
  const FedInput& input =
      *std::find_if(facts_.inputs.begin(), facts_.inputs.end(),
                    [&](const FedInput& one) { return one.name == mean.weights; });
  const bool is_given = std::find(inputs_.begin(), inputs_.end(), input.name) != inputs_.end();
  if (!is_given) return 1;  // the loss is not asked for
  double sum = 0;
  for (int64_t first = 0; first < rows; first += engine.plan().micro_batch) {
    const int64_t count = std::min(engine.plan().micro_batch, rows - first);
    fill_input(engine, input, first, count);
    const auto elements = static_cast<size_t>(count * element_count(padded(input)));
    if (input.dtype == DType::f32) {
      for (const float each_weight : engine.read<float>(input.name).first(elements))
        sum += static_cast<double>(each_weight);
    } else if (input.dtype == DType::i32) {
      for (const int32_t label : engine.read<int32_t>(input.name).first(elements))
        sum += label == kIgnoreIndex ? 0 : 1;
    } else {
      for (const uint8_t flag : engine.read<uint8_t>(input.name).first(elements))
        sum += flag != 0 ? 1 : 0;
    }
  }
  if (!(sum > 0))
    throw Error(ErrorCode::bad_data, mean.weights,
                "the rows of the batch weigh " + std::to_string(sum) + " together",
                "give a batch with at least one label or weight");
  return each * sum;
}

void Feeder::fill(const train::Engine& engine, int64_t first_slot, int64_t drawn) const {
  const int64_t rows = std::min(engine.plan().micro_batch, source_.rows() - first_slot);
  for (const FedInput& input : facts_.inputs) {
    if (engine.has(input.name)) fill_input(engine, input, first_slot, rows);
  }
  if (engine.has(kRowWeightsName)) {
    const std::span<float> weights = engine.write<float>(kRowWeightsName);
    std::fill(weights.begin(), weights.end(), 0.0F);
    std::fill_n(weights.begin(), rows, 1.0F);
  }
  for (size_t i = 0; i < facts_.means.size(); ++i) {
    const std::string& name = facts_.means[i].name;
    if (engine.has(name)) engine.write<float>(name)[0] = static_cast<float>(1.0 / totals_[i]);
  }
  if (engine.has(kRandomKeyName)) {
    const std::span<int64_t> key = engine.write<int64_t>(kRandomKeyName);
    key[0] = static_cast<int64_t>(seed_);
    key[1] = drawn;
    key[2] = first_slot;
  }
}

}  // namespace snug
