// SPDX-License-Identifier: Apache-2.0
#include "train/state.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace snug::train {
namespace {

// Reals are stored by their bits, so that a resumed run continues with exactly the same numbers.
std::string bits_of(double value) { return std::to_string(std::bit_cast<uint64_t>(value)); }

uint64_t number(const io::JsonValue& object, const char* key) {
  const std::string text = object.get_string(key);
  try {
    return std::stoull(text);
  } catch (const std::exception&) {
    object.at(key).fail("must hold the digits of a number");
  }
}

}  // namespace

std::string TrainState::to_json() const {
  nlohmann::ordered_json json = {{"global_step", step},
                                 {"epoch", epoch},
                                 {"batch", batch},
                                 {"micro_batch", micro_batch},
                                 {"content_hash", std::to_string(content_hash)},
                                 {"stale_evaluations", stale_evaluations},
                                 {"loss_sum_bits", bits_of(loss_sum)},
                                 {"loss_count", loss_count},
                                 {"metrics_bytes", metrics_bytes},
                                 {"is_finished", is_finished},
                                 {"config", nlohmann::ordered_json::parse(config_json)}};
  if (best_metric) {
    json["best_metric"] = *best_metric;
    json["best_metric_bits"] = bits_of(*best_metric);
  }
  return json.dump(2);
}

TrainState TrainState::from_json(const std::string& text, const std::string& file) {
  const io::JsonValue json = io::parse_json(text, file);
  TrainState state{.step = json.get_int("global_step"),
                   .epoch = json.get_int("epoch"),
                   .batch = json.get_int("batch"),
                   .micro_batch = json.get_positive("micro_batch"),
                   .content_hash = number(json, "content_hash"),
                   .best_metric = std::nullopt,
                   .stale_evaluations = json.get_int("stale_evaluations"),
                   .loss_sum = std::bit_cast<double>(number(json, "loss_sum_bits")),
                   .loss_count = json.get_int("loss_count"),
                   .metrics_bytes = json.get_int("metrics_bytes"),
                   .is_finished = json.get_bool("is_finished"),
                   .config_json = json.at("config").dump()};
  if (json.has("best_metric_bits"))
    state.best_metric = std::bit_cast<double>(number(json, "best_metric_bits"));
  return state;
}

}  // namespace snug::train
