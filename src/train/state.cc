// SPDX-License-Identifier: Apache-2.0
#include "train/state.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "io/json_file.h"

namespace snug::train {
namespace {

constexpr int64_t kMaxCount = 1'000'000'000'000'000;  // as max_steps
constexpr int64_t kMaxMicroBatch = 1 << 24;           // as train_batch_size

// Reals are stored by their bits, so that a resumed run continues with exactly the same numbers.
std::string bits_of(double value) { return std::to_string(std::bit_cast<uint64_t>(value)); }

uint64_t number(const io::JsonValue& object, const char* key) {
  const std::string text = object.get_string(key);
  const std::optional<uint64_t> value = number_in<uint64_t>(text);
  if (!value)
    object.at(key).fail("must hold the digits of a number of 64 bits, found '" + text + "'");
  return *value;
}

double finite_real(const io::JsonValue& object, const char* key) {
  const auto value = std::bit_cast<double>(number(object, key));
  if (!std::isfinite(value)) object.at(key).fail("must hold the bits of a finite number");
  return value;
}

/// Stands as a number for people, too; the two agree.
std::optional<double> best_metric_of(const io::JsonValue& object) {
  const std::optional<io::JsonValue> plain = object.find("best_metric");
  if (!object.has("best_metric_bits")) {
    if (plain) plain->fail("stands without best_metric_bits");
    return std::nullopt;
  }
  const double value = finite_real(object, "best_metric_bits");
  if (!plain) object.at("best_metric_bits").fail("stands without best_metric");
  if (plain->as_double() != value) {
    plain->fail("is " + number_text(plain->as_double()) + ", but best_metric_bits are those of " +
                number_text(value));
  }
  return value;
}

int64_t count(const io::JsonValue& object, const char* key, int64_t low = 0,
              int64_t high = kMaxCount) {
  return object.at(key).as_int(low, high);
}

std::optional<InstructionSet> instruction_set_of(const io::JsonValue& object) {
  if (!object.has("instruction_set")) return std::nullopt;
  const std::string name = object.get_string("instruction_set");
  const std::optional<InstructionSet> set = find_instruction_set(name);
  if (!set) object.at("instruction_set").fail("is '" + name + "', which is no instruction set");
  return set;
}

}  // namespace

std::string RunState::to_json() const {
  nlohmann::ordered_json json = {{"global_step", step},
                                 {"schedule_step", schedule_step},
                                 {"optimizer_step", optimizer_step},
                                 {"epoch", epoch},
                                 {"batch", batch},
                                 {"micro_batch", micro_batch},
                                 {"stale_evaluations", stale_evaluations},
                                 {"loss_sum_bits", bits_of(loss_sum)},
                                 {"loss_count", loss_count},
                                 {"metrics_bytes", metrics_bytes},
                                 {"evaluations_bytes", evaluations_bytes},
                                 {"is_finished", is_finished}};
  if (rows_hash) json["rows_hash"] = std::to_string(*rows_hash);
  if (validation_hash) json["validation_rows_hash"] = std::to_string(*validation_hash);
  if (loss_scale) {
    json["loss_scale"] = {{"value_bits", bits_of(loss_scale->value)},
                          {"clean_updates", loss_scale->clean_updates},
                          {"overflows", loss_scale->overflows}};
  }
  if (owes_evaluation) json["owes_evaluation"] = true;
  for (const auto& [key, value] : levers) json["levers_taken"][key] = value;
  if (instruction_set) json["instruction_set"] = to_string(*instruction_set);
  if (best_step) json["best_step"] = *best_step;
  if (best_metric) {
    json["best_metric"] = *best_metric;
    json["best_metric_bits"] = bits_of(*best_metric);
  }
  if (lost_metric) json["lost_metric_bits"] = bits_of(*lost_metric);
  std::string text = json.dump(2);
  text.resize(text.size() - 2);  // "\n}"
  return text + ",\n  \"config\": " + config_json + "\n}";
}

RunState RunState::from_json(const std::string& text, const std::string& file) {
  const io::JsonValue json = io::parse_json(text, file);
  const int64_t step = count(json, "global_step");
  // Older checkpoints have one count for all three.
  const auto part = [&](const char* key) { return json.has(key) ? count(json, key) : step; };
  RunState state{
      .step = step,
      .schedule_step = part("schedule_step"),
      .optimizer_step = part("optimizer_step"),
      .epoch = count(json, "epoch"),
      .batch = count(json, "batch"),
      .micro_batch = count(json, "micro_batch", 1, kMaxMicroBatch),
      .rows_hash = std::nullopt,
      .validation_hash = std::nullopt,
      .best_metric = best_metric_of(json),
      .best_step = std::nullopt,
      .lost_metric = std::nullopt,
      .stale_evaluations = count(json, "stale_evaluations"),
      .loss_scale = std::nullopt,
      .loss_sum = finite_real(json, "loss_sum_bits"),
      .loss_count = count(json, "loss_count"),
      .metrics_bytes = count(json, "metrics_bytes"),
      .evaluations_bytes = json.has("evaluations_bytes") ? count(json, "evaluations_bytes") : 0,
      .is_finished = json.get_bool("is_finished"),
      .owes_evaluation = json.has("owes_evaluation") && json.get_bool("owes_evaluation"),
      .levers = {},
      .instruction_set = instruction_set_of(json),
      .config_json = json.at("config").dump()};
  if (json.has("levers_taken")) {
    const io::JsonValue levers = json.at("levers_taken");
    for (const std::string& key : levers.keys())
      state.levers.emplace_back(key, levers.get_string(key));
  }
  if (json.has("loss_scale")) {
    const io::JsonValue scale = json.at("loss_scale");
    state.loss_scale = {.value = finite_real(scale, "value_bits"),
                        .clean_updates = count(scale, "clean_updates"),
                        .overflows = count(scale, "overflows")};
  }
  if (json.has("best_step")) state.best_step = count(json, "best_step");
  if (state.best_step && !state.best_metric)
    json.at("best_step").fail("stands without best_metric");
  if (json.has("lost_metric_bits")) state.lost_metric = finite_real(json, "lost_metric_bits");
  if (json.has("rows_hash")) state.rows_hash = number(json, "rows_hash");
  if (json.has("validation_rows_hash"))
    state.validation_hash = number(json, "validation_rows_hash");
  return state;
}

}  // namespace snug::train
