// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

// A scale whose reciprocal is a number of 32 bits that is not subnormal, and which is one itself.
constexpr double kLeast = std::numeric_limits<float>::min();
constexpr double kMost = 1 / kLeast;

[[noreturn]] void refuse(const char* key, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, key, what, hint);
}

double stored(double value) { return static_cast<double>(static_cast<float>(value)); }

LossScaleRule constant(const std::string& word) {
  const std::optional<double> value = number_in<double>(word);
  if (!value)
    refuse("loss_scale", "there is no loss scale '" + word + "'",
           "give none, dynamic, dynamic_paddle or a number");
  if (!(*value >= kLeast && *value <= kMost))
    refuse("loss_scale", word + " or its reciprocal is no normal number of 32 bits",
           "give a power of two such as 1024, whose reciprocal is exact");
  return {.scaling = LossScaling::constant, .initial = stored(*value)};
}

LossScaleRule without_floor(const std::string& word) {
  if (word == "none" || word == "auto") return {};
  if (word == "dynamic")
    return {.scaling = LossScaling::dynamic, .initial = 65536, .least = kLeast};
  if (word == "dynamic_paddle")
    return {.scaling = LossScaling::dynamic,
            .initial = 32768,
            .growth = 2,
            .backoff = 0.8,
            .growth_interval = 1000,
            .backoff_interval = 2,
            .least = 1};
  return constant(word);
}

}  // namespace

LossScaleRule make_loss_scale(const std::string& word, double least) {
  LossScaleRule rule = without_floor(word);
  if (least == 0) return rule;
  if (rule.scaling != LossScaling::dynamic)
    refuse("loss_scale_min", "loss_scale is " + word + ", which never falls",
           "omit it, or set loss_scale to dynamic");
  if (!(least >= kLeast && least <= rule.initial))
    refuse("loss_scale_min",
           number_text(least) + " is not above 0 and at most " + number_text(rule.initial) +
               ", with which " + word + " begins",
           "give 1, for example");
  rule.least = stored(least);
  return rule;
}

LossScale initial_scale(const LossScaleRule& rule) { return {.value = rule.initial}; }

LossScale next_scale(const LossScaleRule& rule, const LossScale& scale, bool has_overflowed) {
  if (rule.scaling != LossScaling::dynamic) return scale;
  LossScale next = scale;
  if (has_overflowed) {
    next.clean_updates = 0;
    if (++next.overflows < rule.backoff_interval) return next;
    return {.value = std::max(rule.least, stored(scale.value * rule.backoff))};
  }
  next.overflows = 0;
  if (++next.clean_updates < rule.growth_interval) return next;
  const double grown = stored(scale.value * rule.growth);
  return {.value = std::isfinite(grown) ? grown : scale.value};
}

bool may_overflow(const LossScaleRule& rule, const LossScale& scale) {
  return rule.scaling == LossScaling::dynamic && scale.value > rule.least;
}

}  // namespace snug::optim
