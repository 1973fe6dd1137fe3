// SPDX-License-Identifier: Apache-2.0
// Makers of options, one for each kind of value: they give the table its short form and hold all
// parsing and range checks. Pointers to members name the field.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/option.h"

namespace snug::config {

/// A range of numbers; `text()` is what errors and help print.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_low_open = false;
  bool is_high_open = false;

  [[nodiscard]] bool holds(double value) const;
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] constexpr Range at_least(double low) { return {.low = low}; }
[[nodiscard]] constexpr Range above(double low) { return {.low = low, .is_low_open = true}; }
[[nodiscard]] constexpr Range between(double low, double high) {
  return {.low = low, .high = high};
}
/// [0, 1): shares that must leave something.
[[nodiscard]] constexpr Range below_one() { return {.low = 0, .high = 1, .is_high_open = true}; }

/// Name and help, the part that every maker takes.
struct About {
  std::string name;
  std::string help;
  std::string unit = {};
};

[[nodiscard]] Option text_option(About about, std::string RunConfig::*field, bool may_be_empty);
[[nodiscard]] Option integer_option(About about, int64_t RunConfig::*field, Range range);
/// 0 in the field is "auto" in text.
[[nodiscard]] Option integer_or_auto_option(About about, int64_t RunConfig::*field, Range range);
[[nodiscard]] Option number_option(About about, double RunConfig::*field, Range range);
/// Unset is "auto".
[[nodiscard]] Option number_or_auto_option(About about, std::optional<double> RunConfig::*field,
                                           Range range);
[[nodiscard]] Option switch_option(About about, bool RunConfig::*field);
[[nodiscard]] Option switch_or_auto_option(About about, std::optional<bool> RunConfig::*field);
[[nodiscard]] Option integers_option(About about, std::vector<int64_t> RunConfig::*field,
                                     Range range, bool may_be_empty);
[[nodiscard]] Option texts_option(About about, std::vector<std::string> RunConfig::*field);
/// A list of some of these words, none of them twice.
[[nodiscard]] Option words_option(About about, std::vector<std::string> RunConfig::*field,
                                  const std::vector<std::string>& words);
/// JSON lists of objects.
[[nodiscard]] Option groups_option(About about, std::vector<ParameterGroup> RunConfig::*field);
[[nodiscard]] Option bits_option(About about, std::vector<StateBits> RunConfig::*field);
/// A JSON object.
[[nodiscard]] Option lora_option(About about, LoraOptions RunConfig::*field);
[[nodiscard]] Option precisions_option(About about, std::vector<PrecisionRule> RunConfig::*field);
/// One of several whole numbers; the first is the default.
[[nodiscard]] Option number_of_option(About about, int64_t RunConfig::*field,
                                      const std::vector<int64_t>& numbers);
[[nodiscard]] Option memory_option(About about, MemorySpec RunConfig::*field);
/// auto, a kind of scale, or a number above 0; held as the text.
[[nodiscard]] Option loss_scale_option(About about, std::string RunConfig::*field);
[[nodiscard]] Option recompute_option(About about, RecomputeSetting RunConfig::*field);

/// One of several words; aliases (other programs' names) map to the same values. Index = value of
/// the enum.
[[nodiscard]] Option choice_option_of(About about, const std::vector<std::string>& words,
                                      std::vector<std::pair<std::string, std::string>> aliases,
                                      std::function<void(RunConfig&, size_t)> set,
                                      std::function<size_t(const RunConfig&)> get);
/// One of several words, held as the word.
[[nodiscard]] Option word_option(About about, std::string RunConfig::*field,
                                 const std::vector<std::string>& words,
                                 std::vector<std::pair<std::string, std::string>> aliases = {});
template <class Enum>
[[nodiscard]] Option choice_option(About about, Enum RunConfig::*field,
                                   std::vector<std::string> words,
                                   std::vector<std::pair<std::string, std::string>> aliases = {}) {
  return choice_option_of(
      std::move(about), words, std::move(aliases),
      [field](RunConfig& config, size_t i) { config.*field = static_cast<Enum>(i); },
      [field](const RunConfig& config) { return static_cast<size_t>(config.*field); });
}

/// The same option; a resumed run may give it another value.
[[nodiscard]] Option may_change(Option option);
/// The same option; a resumed run may name another file with the same rows.
[[nodiscard]] Option same_content(Option option);

}  // namespace snug::config
