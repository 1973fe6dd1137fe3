// SPDX-License-Identifier: Apache-2.0
#include "session/feeder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/id_vector.h"
#include "base/numbers.h"
#include "base/philox.h"
#include "compile/value_names.h"
#include "graph/dependence.h"
#include "ops/fed_names.h"
#include "ops/loss/loss.h"
#include "snug/error.h"

namespace snug::session {
namespace {

// A boolean is a byte: what is neither 0 nor 1 would count several times.
void check_flags(const RowSlot& slot) {
  if (slot.dtype != DType::boolean) return;
  const auto wrong =
      std::ranges::find_if(slot.bytes, [](std::byte flag) { return flag > std::byte{1}; });
  if (wrong == slot.bytes.end()) return;
  const int64_t row = (wrong - slot.bytes.begin()) / (std::ssize(slot.bytes) / slot.rows);
  throw Error(ErrorCode::bad_data, slot.input,
              "row " + std::to_string(slot.first_row + row) + " has the byte " +
                  std::to_string(std::to_integer<int>(*wrong)) + " in a boolean input",
              "give 0 or 1, for example value != 0");
}

RowSlot slot_of(const ProgramInputs::Input& input, int64_t first_row, int64_t rows,
                std::span<std::byte> staged) {
  return {.input = input.name,
          .dtype = input.dtype,
          .row_shape = input.row_shape,
          .length = input.length,
          .padding = input.padding,
          .first_row = first_row,
          .rows = rows,
          .bytes = staged.first(static_cast<size_t>(rows * input.row_bytes))};
}

// What the source has no values for is zero; a weight that nobody gives is one.
void fill_unread(const ProgramInputs::Input& input, int64_t rows, std::span<std::byte> staged) {
  const auto bytes = static_cast<size_t>(rows * input.row_bytes);
  if (input.is_weight)
    std::fill_n(reinterpret_cast<float*>(staged.data()), bytes / sizeof(float), 1.0F);
  else
    std::memset(staged.data(), 0, bytes);
}

// Rows that fill up the micro-batch are copies of its first: whatever the network computes of them
// is as finite as that, and weighs nothing.
void fill_up(const ProgramInputs::Input& input, int64_t rows, std::span<std::byte> staged) {
  const auto bytes = static_cast<size_t>(input.row_bytes);
  for (size_t at = static_cast<size_t>(rows) * bytes; at < staged.size(); at += bytes) {
    if (input.is_weight)
      std::memset(staged.data() + at, 0, bytes);
    else
      std::memcpy(staged.data() + at, staged.data(), bytes);
  }
}

double sum_of_weights(DType dtype, const void* values, int64_t count) {
  double sum = 0;
  if (dtype == DType::f32) {
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(static_cast<const float*>(values)[i]);
  } else if (dtype == DType::i32) {
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<const int32_t*>(values)[i] == kIgnoreIndex ? 0 : 1;
  } else {
    for (int64_t i = 0; i < count; ++i) sum += static_cast<const uint8_t*>(values)[i] != 0 ? 1 : 0;
  }
  return sum;
}

// Documented (NetworkBuilder::random_key): what runs draw depends on it.
int64_t seed_of_key(int64_t seed, int64_t number) {
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(number), 0, 0, 1}, static_cast<uint64_t>(seed));
  return static_cast<int64_t>((uint64_t{words[1]} << 32 | words[0]) >> 1);
}

// Every value that an output but the loss depends on.
IdVector<ValueId, bool> needed_for_outputs(const Graph& graph) {
  std::vector<ValueId> ends;
  for (const ValueId id : graph.outputs) {
    if (graph.value(id).name != compile::kLossName) ends.push_back(id);
  }
  return sources_of(graph, ends);
}

bool is_label(const network::FedInput& input, const NetworkFacts& facts) {
  return input.dtype == DType::i32 &&
         std::ranges::any_of(facts.means, [&](const network::MeanTotal& mean) {
           return mean.weights == input.name;
         });
}

}  // namespace

ProgramInputs inputs_of(const Graph& graph, const NetworkFacts& facts) {
  ProgramInputs found;
  for (const network::FedInput& input : facts.inputs) {
    const ValueId id = graph.find(input.name);
    if (id == kNone) continue;
    const Shape& shape = graph.type(id).shape;
    const Shape row_shape(shape.begin() + 1, shape.end());
    found.inputs.push_back(
        {.name = input.name,
         .dtype = input.dtype,
         .row_shape = row_shape,
         .length = input.length,
         .padding = is_label(input, facts) ? static_cast<int32_t>(kIgnoreIndex) : 0,
         .row_bytes = element_bytes(input.dtype) * element_count(row_shape),
         .is_weight = input.is_weight});
  }
  return found;
}

ProgramInputs inputs_of_outputs(const Graph& graph, const NetworkFacts& facts) {
  const IdVector<ValueId, bool> is_needed = needed_for_outputs(graph);
  ProgramInputs found = inputs_of(graph, facts);
  for (ProgramInputs::Input& input : found.inputs)
    input.is_read = is_needed[graph.find(input.name)];
  return found;
}

std::vector<RowSlot> row_slots(const ProgramInputs& inputs) {
  std::vector<RowSlot> slots;
  for (const ProgramInputs::Input& input : inputs.inputs) slots.push_back(slot_of(input, 0, 0, {}));
  return slots;
}

Feeder::Feeder(Engine& engine, const NetworkFacts& facts, int64_t seed)
    : engine_(engine), facts_(facts) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    if (name == kRandomKey) random_keys_.push_back({name, seed});
    if (!name.starts_with(kOwnKeyPrefix)) continue;
    const auto number = number_in<int64_t>(name.substr(std::strlen(kOwnKeyPrefix)));
    random_keys_.push_back({name, seed_of_key(seed, number.value())});
  }
  totals_.reserve(facts.means.size());
  slots_.reserve(facts.inputs.size());
  staged_.reserve(facts.inputs.size());
}

void Feeder::begin(const RowSource& source, const ProgramInputs& inputs) {
  source_ = &source;
  inputs_ = &inputs;
  check_source();
  totals_.clear();
  for (const network::MeanTotal& mean : facts_.means) totals_.push_back(total_of(mean));
}

void Feeder::check_source() const {
  if (source_->rows() < 1)
    throw Error(ErrorCode::bad_data, "rows", "a batch without rows", "give at least one");
  for (const Input& input : inputs_->inputs) {
    if (input.is_read && !input.is_weight && !source_->has(input.name))
      throw Error(ErrorCode::bad_data, input.name, "the rows have no values for this input");
  }
  for (const std::string& column : source_->columns()) {
    if (std::none_of(facts_.inputs.begin(), facts_.inputs.end(),
                     [&](const network::FedInput& input) { return input.name == column; }))
      throw Error(ErrorCode::bad_data, column, "the network has no input of this name",
                  "omit it, or give it to input()");
  }
  for (const std::string& input : source_->total_weight_inputs()) {
    if (std::ranges::find(facts_.means, input, &network::MeanTotal::weights) == facts_.means.end())
      throw Error(ErrorCode::bad_data, input,
                  "the rows say its total weight, but it weighs no mean",
                  "omit it: total weights are those of inputs that weighted_mean or cross_entropy "
                  "are weighed by");
  }
}

bool Feeder::is_read(const Input& input) const {
  return input.is_read && (!input.is_weight || source_->has(input.name));
}

// Memory for a micro-batch of it.
std::span<std::byte> Feeder::stage(const Input& input) const {
  const int64_t bytes = engine_.plan().micro_batch * input.row_bytes;
  return engine_.stage<std::byte>(input.name).first(static_cast<size_t>(bytes));
}

// Reads the input of all rows, micro-batch by micro-batch.
double Feeder::sum_of(const Input& input) const {
  double sum = 0;
  const int64_t rows = source_->rows();
  const int64_t micro_batch = engine_.plan().micro_batch;
  for (int64_t first = 0; first < rows; first += micro_batch) {
    const int64_t count = std::min(micro_batch, rows - first);
    const std::span<std::byte> staged = stage(input);
    if (is_read(input))
      source_->fill(slot_of(input, first, count, staged));
    else
      fill_unread(input, count, staged);
    sum += sum_of_weights(input.dtype, staged.data(), count * element_count(input.row_shape));
  }
  return sum;
}

double Feeder::total_of(const network::MeanTotal& mean) const {
  const auto each = static_cast<double>(mean.each);
  if (mean.weights.empty()) return each * static_cast<double>(source_->rows());
  const auto input = std::ranges::find(inputs_->inputs, mean.weights, &Input::name);
  if (input == inputs_->inputs.end() || !input->is_read) return 1;  // the loss is not asked for
  const std::optional<double> known = source_->total_weight(mean.weights);
  const double sum = known ? *known : sum_of(*input);
  if (!(sum > 0) && !mean.may_be_zero)
    throw Error(ErrorCode::bad_data, mean.weights,
                "the rows of the batch weigh " + number_text(sum) + " together",
                "give a batch with at least one label or weight");
  return each * sum;
}

void Feeder::fill(Engine& engine, int64_t first_slot, int64_t drawn) const {
  const int64_t rows = std::min(engine.plan().micro_batch, source_->rows() - first_slot);
  slots_.clear();
  staged_.clear();
  for (const Input& input : inputs_->inputs) {
    staged_.push_back(stage(input));
    if (is_read(input))
      slots_.push_back(slot_of(input, first_slot, rows, staged_.back()));
    else
      fill_unread(input, rows, staged_.back());
  }
  source_->fill_all(slots_);
  for (const RowSlot& slot : slots_) check_flags(slot);
  for (size_t i = 0; i < staged_.size(); ++i) {
    const Input& input = inputs_->inputs[i];
    fill_up(input, rows, staged_[i]);
    engine.commit(input.name, std::ssize(staged_[i]));
  }
  feed_totals(engine, rows);
  for (const RandomKey& each : random_keys_) {
    const std::array<int64_t, 3> key = {each.seed, drawn, first_slot};
    engine.write<int64_t>(each.name, 0, key);
  }
}

// What rows weigh where nobody says it, and what each mean is divided by.
void Feeder::feed_totals(Engine& engine, int64_t rows) const {
  const bool says_weights = std::ranges::any_of(
      inputs_->inputs, [](const Input& input) { return input.name == kRowWeights; });
  if (!says_weights && engine.has(kRowWeights)) {
    const std::span<float> weights = engine.stage<float>(kRowWeights);
    std::ranges::fill(weights, 0.0F);
    std::fill_n(weights.begin(), rows, 1.0F);
    engine.commit(kRowWeights, std::ssize(std::as_bytes(weights)));
  }
  for (size_t i = 0; i < facts_.means.size(); ++i) {
    const std::string& name = facts_.means[i].name;
    if (engine.has(name))
      engine.write(name, totals_[i] > 0 ? static_cast<float>(1.0 / totals_[i]) : 0.0F);
  }
}

}  // namespace snug::session
