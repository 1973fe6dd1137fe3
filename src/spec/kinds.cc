// SPDX-License-Identifier: Apache-2.0
#include "spec/kinds.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/numbers.h"
#include "base/utf8.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "snug/error.h"
#include "spec/memory_text.h"

namespace snug::spec {
namespace {

// Upper bounds from here on only keep counts exact in double; nobody needs to read them.
constexpr double kNamelessHigh = 1e15;

// The words of intervals.
constexpr std::string_view kEpoch = "epoch";
constexpr std::string_view kEnd = "end";

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

[[noreturn]] void refuse_range(std::string_view text, const Range& range, bool is_above) {
  if (is_above && range.high >= kNamelessHigh && !std::isinf(range.high)) {
    // The list of keys does not name this bound.
    throw BadValue(quoted(text) + " is above " + std::to_string(static_cast<int64_t>(range.high)) +
                       ", the largest value",
                   "give a smaller number");
  }
  throw BadValue(quoted(text) + " is out of range");
}

// The whole text must be one value.
template <class T>
T parse_number(std::string_view text, std::string_view what, const Range& range) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) {
    if (std::isinf(range.high))
      throw BadValue(quoted(text) + " is out of the range of numbers here");
    refuse_range(text, range, !text.starts_with('-'));
  }
  if (status != std::errc() || end != text.data() + text.size()) {
    throw BadValue(quoted(text) + " is not " + std::string(what));
  }
  return value;
}

double parse_double(std::string_view text, const Range& range) {
  const auto value = parse_number<double>(text, "a number", range);
  if (!std::isfinite(value)) throw BadValue(quoted(text) + " is not a finite number");
  if (!range.holds(value)) refuse_range(text, range, value > range.high);
  return value;
}

int64_t parse_integer(std::string_view text, const Range& range) {
  const auto value = parse_number<int64_t>(text, "an integer", range);
  const auto number = static_cast<double>(value);
  if (!range.holds(number)) refuse_range(text, range, number > range.high);
  return value;
}

bool parse_switch(std::string_view text) {
  for (const char* word : {"true", "True", "TRUE", "yes", "on", "1"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE", "no", "off", "0"}) {
    if (text == word) return false;
  }
  throw BadValue(quoted(text) + " is neither true nor false");
}

// Every dump can hold it.
void check_text(std::string_view text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 32 || c == 127;
  });
  if (has_control || first_invalid_utf8(text))
    throw BadValue("the value holds control characters or is not UTF-8");
}

std::string or_auto(const std::string& range) {
  return range.empty() ? "or auto" : range + " or auto";
}

// Unset is "auto"; what is given is of the other kind.
template <class T>
Kind<std::optional<T>> if_given(const Kind<T>& given) {
  Kind<std::optional<T>> kind{.info = given.info};
  kind.info.range = or_auto(given.info.range);
  kind.info.has_auto = true;
  kind.parse = [parse = given.parse](std::string_view text) {
    return text == kAuto ? std::nullopt : std::optional<T>(parse(text));
  };
  kind.print = [print = given.print](const std::optional<T>& value) {
    return value ? print(*value) : std::string(kAuto);
  };
  return kind;
}

}  // namespace

bool Range::holds(double value) const {
  return (is_low_open ? value > low : value >= low) &&
         (is_high_open ? value < high : value <= high);
}

std::string Range::text() const {
  if (std::isinf(low) && std::isinf(high)) return {};
  if (high >= kNamelessHigh) return (is_low_open ? "> " : ">= ") + number_text(low);
  return std::string(is_low_open ? "(" : "[") + number_text(low) + ", " + number_text(high) +
         (is_high_open ? ")" : "]");
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += separator;
    text += items[i];
  }
  return text;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item.empty()) throw BadValue("the list has an empty element");
    items.emplace_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

Kind<std::string> text(bool may_be_empty) {
  return {.info = {.type = "text", .may_be_empty = may_be_empty},
          .parse =
              [](std::string_view text) {
                check_text(text);
                return std::string(text);
              },
          .print = [](const std::string& value) { return value; }};
}

Kind<int64_t> integer(Range range) {
  return {.info = {.type = "integer", .form = ValueForm::number, .range = range.text()},
          .bounds = range,
          .parse = [range](std::string_view text) { return parse_integer(text, range); },
          .print = [](const int64_t& value) { return std::to_string(value); }};
}

Kind<int64_t> integer_or_auto(Range range) {
  Kind<int64_t> kind = integer(range);
  kind.info.range = or_auto(kind.info.range);
  kind.info.has_auto = true;
  kind.parse = [range](std::string_view text) {
    return text == kAuto ? 0 : parse_integer(text, range);
  };
  kind.print = [](const int64_t& value) {
    return value == 0 ? std::string(kAuto) : std::to_string(value);
  };
  return kind;
}

Kind<std::optional<int64_t>> integer_if_given(Range range) { return if_given(integer(range)); }

namespace {

Interval parse_interval(std::string_view text, IntervalUnit of_zero) {
  if (text == kEpoch) return {.unit = IntervalUnit::epoch};
  if (text == kEnd) return {.unit = IntervalUnit::end};
  const auto value = parse_number<double>(text, "a number of updates, a share, epoch or end", {});
  if (value > 0 && value < 1) return {.unit = IntervalUnit::share, .part = value};
  if (!(value >= 0 && std::floor(value) == value))
    throw BadValue(quoted(text) + " is no whole number of updates and no share below 1");
  if (value > kMaxCount) refuse_range(text, between(0, kMaxCount), true);
  if (value == 0) return {.unit = of_zero};
  return {.unit = IntervalUnit::updates, .count = static_cast<int64_t>(value)};
}

std::string print_interval(const Interval& interval, IntervalUnit of_zero) {
  if (interval.unit == of_zero) return "0";
  switch (interval.unit) {
    case IntervalUnit::updates:
      return std::to_string(interval.count);
    case IntervalUnit::share:
      return number_text(interval.part);
    case IntervalUnit::epoch:
      return std::string(kEpoch);
    case IntervalUnit::end:
      return std::string(kEnd);
  }
  return {};
}

}  // namespace

Kind<Interval> interval(IntervalUnit of_zero) {
  return {.info = {.type = "updates, share or word",
                   .form = ValueForm::number,
                   .range = ">= 1, (0, 1), epoch, end; 0 is " +
                            std::string(of_zero == IntervalUnit::epoch ? kEpoch : kEnd)},
          .parse = [of_zero](std::string_view text) { return parse_interval(text, of_zero); },
          .print = [of_zero](const Interval& value) { return print_interval(value, of_zero); }};
}

Kind<double> number(Range range) {
  return {.info = {.type = "number", .form = ValueForm::number, .range = range.text()},
          .bounds = range,
          .parse = [range](std::string_view text) { return parse_double(text, range); },
          .print = [](const double& value) { return number_text(value); }};
}

Kind<std::optional<double>> number_or_auto(Range range) { return if_given(number(range)); }

Kind<bool> flag() {
  return {.info = {.type = std::string(kSwitchType),
                   .form = ValueForm::boolean,
                   .range = "true, false",
                   .is_switch = true},
          .parse = parse_switch,
          .print = [](const bool& value) { return std::string(value ? "true" : "false"); }};
}

Kind<std::optional<bool>> flag_or_auto() { return if_given(flag()); }

Kind<std::vector<int64_t>> integers(Range range, bool may_be_empty) {
  return {.info = {.type = "list of integers",
                   .form = ValueForm::number_list,
                   .range = range.text(),
                   .may_be_empty = may_be_empty},
          .parse =
              [range, may_be_empty](std::string_view text) {
                std::vector<int64_t> values;
                if (text.empty() && may_be_empty) return values;
                for (const std::string& item : split_list(text))
                  values.push_back(parse_integer(item, range));
                return values;
              },
          .print =
              [](const std::vector<int64_t>& values) {
                std::vector<std::string> items;
                for (const int64_t value : values) items.push_back(std::to_string(value));
                return join(items, ",");
              }};
}

Kind<std::vector<std::string>> texts() {
  return {.info = {.type = "list of texts", .form = ValueForm::text_list, .may_be_empty = true},
          .parse =
              [](std::string_view text) {
                check_text(text);
                return text.empty() ? std::vector<std::string>() : split_list(text);
              },
          .print = [](const std::vector<std::string>& items) { return join(items, ","); }};
}

Kind<std::vector<std::string>> words(const std::vector<std::string>& known) {
  Kind<std::vector<std::string>> kind = texts();
  kind.info.range = "any of " + join(known, ", ");
  kind.parse = [known](std::string_view text) {
    std::vector<std::string> given = text.empty() ? std::vector<std::string>() : split_list(text);
    for (const std::string& word : given) {
      if (std::find(known.begin(), known.end(), word) == known.end())
        throw BadValue("there is no '" + word + "'", "give any of " + join(known, ", "));
      if (std::count(given.begin(), given.end(), word) > 1)
        throw BadValue("'" + word + "' is given twice", "give it once");
    }
    return given;
  };
  return kind;
}

namespace {

double rate_of(const io::JsonValue& group, const std::string& key) {
  const double value = group.at(key).as_double();
  if (value < 0) group.at(key).fail("must not be negative");
  return value;
}

ParameterGroup read_group(const io::JsonValue& group) {
  ParameterGroup read;
  for (const std::string& key : group.keys()) {
    if (key == "match") {
      read.match = group.get_string(key);
      check_text(read.match);
    } else if (key == "learning_rate") {
      read.learning_rate = rate_of(group, key);
    } else if (key == "weight_decay") {
      read.weight_decay = rate_of(group, key);
    } else {
      group.fail("has no key '" + key + "'");
    }
  }
  if (read.match.empty()) group.fail("needs a pattern in \"match\"");
  if (!read.learning_rate && !read.weight_decay)
    group.fail("changes nothing: it has neither learning_rate nor weight_decay");
  return read;
}

std::string text_of(const ParameterGroup& group) {
  std::string item = R"({"match": )" + io::quote_json(group.match);
  if (group.learning_rate) item += R"(, "learning_rate": )" + number_text(*group.learning_rate);
  if (group.weight_decay) item += R"(, "weight_decay": )" + number_text(*group.weight_decay);
  return item + "}";
}

StateBits read_bits(const io::JsonValue& rule) {
  StateBits read;
  for (const std::string& key : rule.keys()) {
    if (key != "match" && key != "bits") rule.fail("has no key '" + key + "'");
  }
  read.match = rule.get_string("match");
  check_text(read.match);
  if (read.match.empty()) rule.fail("needs a pattern in \"match\"");
  read.bits = rule.at("bits").as_int();
  if (read.bits != 8 && read.bits != 32) rule.at("bits").fail("must be 32 or 8");
  return read;
}

std::string text_of(const StateBits& rule) {
  return R"({"match": )" + io::quote_json(rule.match) + R"(, "bits": )" +
         std::to_string(rule.bits) + "}";
}

PrecisionRule read_precision(const io::JsonValue& rule) {
  PrecisionRule read;
  for (const std::string& key : rule.keys()) {
    if (key != "match" && key != "dtype") rule.fail("has no key '" + key + "'");
  }
  read.match = rule.get_string("match");
  check_text(read.match);
  if (read.match.empty()) rule.fail("needs a pattern in \"match\"");
  read.dtype = rule.get_string("dtype");
  if (read.dtype != "float32" && read.dtype != "bfloat16" && read.dtype != "float16")
    rule.at("dtype").fail("must be float32, bfloat16 or float16");
  return read;
}

std::string text_of(const PrecisionRule& rule) {
  return R"({"match": )" + io::quote_json(rule.match) + R"(, "dtype": )" +
         io::quote_json(rule.dtype) + "}";
}

FusionRule read_fusion(const io::JsonValue& rule) {
  FusionRule read;
  for (const std::string& key : rule.keys()) {
    if (key != "match" && key != "level") rule.fail("has no key '" + key + "'");
  }
  read.match = rule.get_string("match");
  check_text(read.match);
  if (read.match.empty()) rule.fail("needs a pattern in \"match\"");
  read.level = rule.get_string("level");
  if (read.level != "full" && read.level != "fusible" && read.level != "off")
    rule.at("level").fail("must be full, fusible or off");
  return read;
}

std::string text_of(const FusionRule& rule) {
  return R"({"match": )" + io::quote_json(rule.match) + R"(, "level": )" +
         io::quote_json(rule.level) + "}";
}

/// `example` is one object.
template <class T>
Kind<std::vector<T>> objects(T (*read)(const io::JsonValue&), const char* example) {
  return {.info = {.type = "list of objects", .form = ValueForm::object_list, .may_be_empty = true},
          .parse =
              [read, example](std::string_view text) {
                std::vector<T> items;
                try {
                  const io::JsonValue list = io::parse_json(text.empty() ? "[]" : text, "the list");
                  if (!list.is_array()) list.fail("must be a list of objects");
                  for (int64_t i = 0; i < list.size(); ++i) items.push_back(read(list.at(i)));
                } catch (const Error& error) {
                  throw BadValue(error.message(), "write [" + std::string(example) +
                                                      "], as JSON on the command line");
                }
                return items;
              },
          .print =
              [](const std::vector<T>& values) {
                std::vector<std::string> items;
                for (const T& value : values) items.push_back(text_of(value));
                return items.empty() ? std::string() : "[" + join(items, ", ") + "]";
              }};
}

}  // namespace

Kind<NamedNumbers> named_numbers(const char* example) {
  return {.info = {.type = "object", .form = ValueForm::object, .may_be_empty = true},
          .parse =
              [example](std::string_view text) {
                NamedNumbers numbers;
                try {
                  const io::JsonValue object =
                      io::parse_json(text.empty() ? "{}" : text, "the object");
                  if (!object.is_object()) object.fail("must be an object");
                  for (const std::string& name : object.keys())
                    numbers[name] = object.at(name).as_double();
                } catch (const Error& error) {
                  throw BadValue(error.message(),
                                 "write " + std::string(example) + ", as JSON on the command line");
                }
                return numbers;
              },
          .print =
              [](const NamedNumbers& numbers) {
                std::vector<std::string> items;
                for (const auto& [name, number] : numbers)
                  items.push_back(io::quote_json(name) + ": " + number_text(number));
                return items.empty() ? std::string() : "{" + join(items, ", ") + "}";
              }};
}

Kind<std::vector<ParameterGroup>> groups() {
  return objects<ParameterGroup>(read_group, R"({"match": "*.bias", "weight_decay": 0})");
}

Kind<std::vector<StateBits>> state_bits() {
  return objects<StateBits>(read_bits, R"({"match": "*.bias", "bits": 32})");
}

Kind<std::vector<PrecisionRule>> precisions() {
  return objects<PrecisionRule>(read_precision, R"({"match": "*.layer.11.*", "dtype": "float32"})");
}

Kind<std::vector<FusionRule>> fusion_rules() {
  return objects<FusionRule>(read_fusion, R"({"match": "*.layer.11.*", "level": "off"})");
}

Kind<std::string> word(const std::vector<std::string>& words, Aliases aliases) {
  return {.info = {.type = "one of", .range = join(words, ", "), .allowed = words},
          .parse =
              [words, aliases = std::move(aliases)](std::string_view text) {
                std::string word(text);
                for (const auto& [alias, canonical] : aliases) {
                  if (word == alias) word = canonical;
                }
                if (std::find(words.begin(), words.end(), word) == words.end())
                  throw BadValue(quoted(text) + " is not allowed");
                return word;
              },
          .print = [](const std::string& value) { return value; }};
}

Kind<int64_t> number_of(const std::vector<int64_t>& numbers) {
  std::vector<std::string> words;
  for (const int64_t number : numbers) words.push_back(std::to_string(number));
  const Kind<std::string> one = word(words);
  return {
      .info = one.info,
      .parse = [one](std::string_view text) { return number_in<int64_t>(one.parse(text)).value(); },
      .print = [](const int64_t& value) { return std::to_string(value); }};
}

Kind<MemorySpec> memory() {
  return {
      .info = {.type = std::string(kMemoryType), .range = "bytes, 900MiB, 60%, -512MiB or auto"},
      .parse =
          [](std::string_view text) {
            const std::optional<MemorySpec> spec = try_parse_memory(text);
            if (!spec)
              throw BadValue(quoted(text) + " is not an amount of memory",
                             std::string(kMemoryForms));
            return *spec;
          },
      .print = [](const MemorySpec& value) { return to_string(value); }};
}

Kind<std::string> loss_scale() {
  static const std::vector<std::string> kWords = {"auto", "none", "dynamic", "dynamic_paddle"};
  return {.info = {.type = "one of",
                   .range = "auto, none, dynamic, dynamic_paddle or a number > 0",
                   .allowed = kWords},
          .parse =
              [](std::string_view text) {
                const bool is_word = std::find(kWords.begin(), kWords.end(), text) != kWords.end();
                return is_word ? std::string(text) : number_text(parse_double(text, above(0)));
              },
          .print = [](const std::string& value) { return value; }};
}

namespace {

// The words of a run configuration and the planner's names.
constexpr std::pair<std::string_view, std::string_view> kStrategies[] = {
    {"auto", kAuto},      {"none", "keep-all"}, {"all", "recompute-all"}, {"sqrt", "sqrt"},
    {"memory", "memory"}, {"speed", "speed"},   {"chen", "chen"}};

std::string parse_strategy(std::string_view text) {
  constexpr std::string_view kMarks = "marks:";
  for (const auto& [word, name] : kStrategies) {
    if (text == word) return std::string(name);
  }
  for (const std::string_view prefix : {"every:", "chen:", "revolve:"}) {
    if (!text.starts_with(prefix)) continue;
    (void)parse_integer(text.substr(prefix.size()), between(1, int64_t{1} << 60));
    return std::string(text);
  }
  if (!text.starts_with(kMarks) || text.size() == kMarks.size())
    throw BadValue(quoted(text) + " is not allowed");
  check_text(text);
  return std::string(text);
}

std::string print_strategy(const std::string& strategy) {
  for (const auto& [word, name] : kStrategies) {
    if (strategy == name) return std::string(word);
  }
  return strategy.empty() ? std::string(kAuto) : strategy;
}

}  // namespace

Kind<std::string> recompute() {
  Kind<std::string> kind{
      .info = {.type = "one of",
               .range = "auto, none, all, sqrt, memory, speed, every:K, chen, chen:BYTES, "
                        "revolve:C, marks:NAME;NAME"},
      .parse = parse_strategy,
      .print = print_strategy};
  for (const auto& [word, name] : kStrategies) kind.info.allowed.emplace_back(word);
  for (const char* form : {"every:K", "chen:BYTES", "revolve:C", "marks:NAME;NAME"})
    kind.info.allowed.emplace_back(form);
  return kind;
}

Kind<ScheduleKind> schedule() {
#define SNUG_SCHEDULE_WORD(word) #word,
  return choice<ScheduleKind>({SNUG_SCHEDULES(SNUG_SCHEDULE_WORD)},
                              {{"constant_with_warmup", "constant"}});
#undef SNUG_SCHEDULE_WORD
}

Kind<std::string> optimizer() {
  return word(
      {
#define SNUG_OPTIMIZER(word) #word,
#include "optimizers.inc"
#undef SNUG_OPTIMIZER
      },
      {{"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"adamw_hf", "adamw"}});
}

}  // namespace snug::spec
