// SPDX-License-Identifier: Apache-2.0
// The table of TrainSpec's fields (snug/train_fields.inc), one row each: all that parsing, help,
// documentation, ranges, checkpoints, resuming, levers and hints need to know of it.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snug/train_spec.h"
#include "spec/kinds.h"

namespace snug::spec {

/// Where a key stands in help and documentation.
struct HelpPlace {
  std::string group = {};  // "Model", "Data", "Memory", "Training", "Output"
  std::string after = {};  // the key before it; empty: it is the group's first
};

/// A word under which a run may be allowed to change the field (kLeverWords), and the value that it
/// then has; empty: one that depends on the network.
struct LeverValue {
  std::string word;
  std::string value;
};

struct Field {
  std::string name;    // of TrainSpec and SessionOptions
  std::string key;     // of the run configuration; empty: it has none, nor any text
  KindInfo kind = {};  // of its text
  /// Other weights at the end. The order of sums, which a split changes, does not count.
  bool changes_result = false;
  /// A resumed session takes the checkpoint's; else it may not differ where it changes the result.
  bool follows_checkpoint = false;
  /// What only an update reads: gradients as such have no use for it.
  bool is_of_update = false;
  ResumeRule on_resume = ResumeRule::fixed;  // of a run
  std::vector<LeverValue> levers = {};
  HelpPlace place = {};
  std::string unit = {};
  std::string help = {};

  /// Reads a field that has a key; throws BadValue.
  std::function<void(TrainSpec&, std::string_view)> set = {};
  std::function<std::string(const TrainSpec&)> get = {};
  /// As a checkpoint has it: so that it reads back exactly.
  std::function<nlohmann::ordered_json(const TrainSpec&)> json = {};
  /// Throws Error{bad_config} by the field's name where a number is out of its range.
  std::function<void(const TrainSpec&)> check = {};

  /// A checkpoint of a session has it, and resuming compares it.
  [[nodiscard]] bool is_saved() const { return changes_result && !follows_checkpoint; }
};

/// In the order of declaration.
[[nodiscard]] const std::vector<Field>& fields();
/// Null where no field has this key.
[[nodiscard]] const Field* find_key(std::string_view key);
/// Throws Error{bad_config} where no field has this key, with the nearest.
[[nodiscard]] const Field& field_of_key(std::string_view key);
/// Sets one from text; Error{bad_config} by key for a key or a value that there is not.
void set_key(TrainSpec& spec, std::string_view key, std::string_view value);
/// Throws Error{bad_config} for the first number that is out of its range.
void check_ranges(const TrainSpec& spec);
/// The word under which a run may be allowed this key with this value; empty: there is none.
[[nodiscard]] std::string lever_word(std::string_view key, std::string_view value);

/// The fields that `Options` (TrainSpec, SessionOptions) has in common with all.
template <class Options>
[[nodiscard]] TrainSpec spec_of(const Options& options) {
  TrainSpec spec;
#define SNUG_TRAIN_FIELD(type, name, ...) spec.name = options.name;
#define SNUG_TRAIN_KEY(type, name, ...) spec.name = options.name;
#include "snug/train_fields.inc"
  return spec;
}
/// Into SessionOptions.
template <class Options>
void set_spec(const TrainSpec& spec, Options& options) {
#define SNUG_TRAIN_FIELD(type, name, ...) options.name = spec.name;
#define SNUG_TRAIN_KEY(type, name, ...) options.name = spec.name;
#include "snug/train_fields.inc"
}
/// The fields that are keys of a run configuration, as they stand there.
template <class Config>
[[nodiscard]] TrainSpec keys_of(const Config& config) {
  TrainSpec spec;
#define SNUG_TRAIN_KEY(type, name, value, key, ...) spec.name = config.key;
#include "snug/train_fields.inc"
  return spec;
}

}  // namespace snug::spec
