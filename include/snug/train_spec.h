// SPDX-License-Identifier: Apache-2.0
// What decides a result and what it costs: the part that SessionOptions (snug/session.h) and
// RunConfig (snug/config.h) have in common. Each field is declared once, in train_fields.inc, with
// all that is to be known of it; the three structs take their fields from there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "snug/draw_numbering.h"
#include "snug/lengths.h"
#include "snug/lora.h"
#include "snug/memory.h"
#include "snug/schedule.h"

namespace snug {

/// Weights whose names match, and what they have in place of the run's. * matches any text.
struct ParameterGroup {
  std::string match;
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
};

/// Weights whose names match, and in how many bits their optimizer states are stored: 32 or 8.
struct StateBits {
  std::string match;
  int64_t bits = 32;
};

/// Parts of the network whose scopes match, and what they compute in: float32, bfloat16 or
/// float16.
struct PrecisionRule {
  std::string match;
  std::string dtype;
};

/// Parts of the network whose scopes, or scopes and ops, match, and their level of fusion: full,
/// fusible or off.
struct FusionRule {
  std::string match;
  std::string level;
};

/// Arguments by name.
using NamedNumbers = std::map<std::string, double>;

/// Whether a resumed run may have another value than the one it began with.
enum class ResumeRule : uint8_t {
  fixed,
  may_change,
  same_content,  // another path, if the rows there are the same
};

/// What a run configuration and the options of a session resolve to.
struct TrainSpec {
#define SNUG_TRAIN_FIELD(type, name, value, ...) type name = value;
#define SNUG_TRAIN_KEY(type, name, value, key, run_value, ...) type name = value;
#include "snug/train_fields.inc"
};

}  // namespace snug
