// SPDX-License-Identifier: Apache-2.0
// Kinds of values that options have: how one is read from text and written as text, and what it may
// be. Values have three text forms that all go through these: command line, YAML, JSON. Which
// field of which struct has the value is not known here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snug/interval.h"
#include "snug/train_spec.h"

namespace snug::spec {

/// Why a text is no value of an option; the caller adds the key and the place.
struct BadValue : std::runtime_error {
  explicit BadValue(const std::string& message, std::string fix = {})
      : std::runtime_error(message), hint(std::move(fix)) {}
  std::string hint;
};

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

inline constexpr double kMaxCount = 1e15;  // counts stay exact in double

/// How a value stands in JSON and YAML.
enum class ValueForm : uint8_t {
  number,
  boolean,
  text,
  number_list,
  text_list,
  object,
  object_list
};

inline constexpr const char* kAuto = "auto";
/// KindInfo::type of amounts of memory, and of switches.
inline constexpr std::string_view kMemoryType = "memory";
inline constexpr std::string_view kSwitchType = "switch";

/// What there is to say of a kind, for help and parsers.
struct KindInfo {
  std::string type = {};  // "integer", "text", "one of", "list of integers", ...
  ValueForm form = ValueForm::text;
  std::string range = {};                 // "linear, cosine", "> 0", "[0, 1)"; empty: any
  std::vector<std::string> allowed = {};  // of "one of": canonical values
  bool may_be_empty = false;
  bool is_switch = false;  // may stand without a value
  bool has_auto = false;   // is "auto" where it is 0 or unset
};

template <class T>
struct Kind {
  KindInfo info = {};
  std::optional<Range> bounds = {};                 // of one number
  std::function<T(std::string_view)> parse = {};    // throws BadValue
  std::function<std::string(const T&)> print = {};  // as `parse` reads it
};

[[nodiscard]] std::vector<std::string> split_list(std::string_view text);
[[nodiscard]] std::string join(const std::vector<std::string>& items, std::string_view separator);

[[nodiscard]] Kind<std::string> text(bool may_be_empty);
[[nodiscard]] Kind<int64_t> integer(Range range);
/// 0 is "auto" in text.
[[nodiscard]] Kind<int64_t> integer_or_auto(Range range);
/// Unset is "auto".
[[nodiscard]] Kind<std::optional<int64_t>> integer_if_given(Range range);
/// A number of updates, a share of them all, or the words "epoch" and "end"; 0 is `of_zero`.
[[nodiscard]] Kind<Interval> interval(IntervalUnit of_zero);
[[nodiscard]] Kind<double> number(Range range);
/// Unset is "auto", as of the other kinds of this name.
[[nodiscard]] Kind<std::optional<double>> number_or_auto(Range range);
[[nodiscard]] Kind<bool> flag();
[[nodiscard]] Kind<std::optional<bool>> flag_or_auto();
[[nodiscard]] Kind<std::vector<int64_t>> integers(Range range, bool may_be_empty);
[[nodiscard]] Kind<std::vector<std::string>> texts();
/// A list of some of these words, none of them twice.
[[nodiscard]] Kind<std::vector<std::string>> words(const std::vector<std::string>& known);
/// One of several whole numbers; the first is the default.
[[nodiscard]] Kind<int64_t> number_of(const std::vector<int64_t>& numbers);
[[nodiscard]] Kind<MemorySpec> memory();

/// JSON lists of objects.
[[nodiscard]] Kind<std::vector<ParameterGroup>> groups();
[[nodiscard]] Kind<std::vector<StateBits>> state_bits();
[[nodiscard]] Kind<std::vector<PrecisionRule>> precisions();
[[nodiscard]] Kind<std::vector<FusionRule>> fusion_rules();
/// JSON objects.
[[nodiscard]] Kind<LoraOptions> lora();
/// `example` is one.
[[nodiscard]] Kind<NamedNumbers> named_numbers(const char* example);

/// Other programs' names for the same words.
using Aliases = std::vector<std::pair<std::string, std::string>>;
/// One of several words, held as the word.
[[nodiscard]] Kind<std::string> word(const std::vector<std::string>& words, Aliases aliases = {});
/// One of several words, held as an enumerator: the word's place is its value.
template <class Enum>
[[nodiscard]] Kind<Enum> choice(const std::vector<std::string>& words, Aliases aliases = {}) {
  const Kind<std::string> held = word(words, std::move(aliases));
  return {.info = held.info,
          .parse =
              [words, held](std::string_view text) {
                const auto found = std::find(words.begin(), words.end(), held.parse(text));
                return static_cast<Enum>(found - words.begin());
              },
          .print = [words](const Enum& value) { return words.at(static_cast<size_t>(value)); }};
}
/// The kinds of snug/schedule.h.
[[nodiscard]] Kind<ScheduleKind> schedule();
/// An optimizer of the list (src/ops/ops.cmake).
[[nodiscard]] Kind<std::string> optimizer();
/// auto, a kind of scale, or a number above 0; held as the text.
[[nodiscard]] Kind<std::string> loss_scale();
/// The words of a run configuration, held as the planner's names; "auto" is held as "auto".
[[nodiscard]] Kind<std::string> recompute();

}  // namespace snug::spec
