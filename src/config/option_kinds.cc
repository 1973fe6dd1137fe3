// SPDX-License-Identifier: Apache-2.0
#include "config/option_kinds.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/numbers.h"
#include "base/utf8.h"
#include "config/memory_budget.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "io/nearest.h"
#include "snug/error.h"

namespace snug::config {
namespace {

// Upper bounds from here on only keep counts exact in double; nobody needs to read them.
constexpr double kNamelessHigh = 1e15;

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

Option make(About about, std::string type, ValueForm form) {
  Option option;
  option.info.name = std::move(about.name);
  option.info.help = std::move(about.help);
  option.info.unit = std::move(about.unit);
  option.info.type = std::move(type);
  option.form = form;
  return option;
}

std::string or_auto(const std::string& range) {
  return range.empty() ? "or auto" : range + " or auto";
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

Option text_option(About about, std::string RunConfig::*field, bool may_be_empty) {
  Option option = make(std::move(about), "text", ValueForm::text);
  option.may_be_empty = may_be_empty;
  option.set = [field](RunConfig& config, std::string_view text) {
    check_text(text);
    config.*field = text;
  };
  option.get = [field](const RunConfig& config) { return config.*field; };
  return option;
}

Option integer_option(About about, int64_t RunConfig::*field, Range range) {
  Option option = make(std::move(about), "integer", ValueForm::number);
  option.info.range = range.text();
  option.set = [field, range](RunConfig& config, std::string_view text) {
    config.*field = parse_integer(text, range);
  };
  option.get = [field](const RunConfig& config) { return std::to_string(config.*field); };
  return option;
}

Option integer_or_auto_option(About about, int64_t RunConfig::*field, Range range) {
  Option option = make(std::move(about), "integer", ValueForm::number);
  option.info.range = or_auto(range.text());
  option.set = [field, range](RunConfig& config, std::string_view text) {
    config.*field = text == "auto" ? 0 : parse_integer(text, range);
  };
  option.get = [field](const RunConfig& config) {
    return config.*field == 0 ? std::string("auto") : std::to_string(config.*field);
  };
  return option;
}

Option number_option(About about, double RunConfig::*field, Range range) {
  Option option = make(std::move(about), "number", ValueForm::number);
  option.info.range = range.text();
  option.set = [field, range](RunConfig& config, std::string_view text) {
    config.*field = parse_double(text, range);
  };
  option.get = [field](const RunConfig& config) { return number_text(config.*field); };
  return option;
}

Option number_or_auto_option(About about, std::optional<double> RunConfig::*field, Range range) {
  Option option = make(std::move(about), "number", ValueForm::number);
  option.info.range = or_auto(range.text());
  option.set = [field, range](RunConfig& config, std::string_view text) {
    if (text == "auto") {
      (config.*field).reset();
    } else {
      config.*field = parse_double(text, range);
    }
  };
  option.get = [field](const RunConfig& config) {
    return config.*field ? number_text(*(config.*field)) : std::string("auto");
  };
  return option;
}

Option switch_option(About about, bool RunConfig::*field) {
  Option option = make(std::move(about), "switch", ValueForm::boolean);
  option.info.range = "true, false";
  option.info.is_switch = true;
  option.set = [field](RunConfig& config, std::string_view text) {
    config.*field = parse_switch(text);
  };
  option.get = [field](const RunConfig& config) {
    return std::string(config.*field ? "true" : "false");
  };
  return option;
}

Option switch_or_auto_option(About about, std::optional<bool> RunConfig::*field) {
  Option option = make(std::move(about), "switch", ValueForm::boolean);
  option.info.range = "true, false or auto";
  option.info.is_switch = true;
  option.set = [field](RunConfig& config, std::string_view text) {
    config.*field = text == "auto" ? std::nullopt : std::optional<bool>(parse_switch(text));
  };
  option.get = [field](const RunConfig& config) {
    return std::string(!(config.*field) ? "auto" : *(config.*field) ? "true" : "false");
  };
  return option;
}

Option integers_option(About about, std::vector<int64_t> RunConfig::*field, Range range,
                       bool may_be_empty) {
  Option option = make(std::move(about), "list of integers", ValueForm::number_list);
  option.may_be_empty = may_be_empty;
  option.info.range = range.text();
  option.set = [field, range, may_be_empty](RunConfig& config, std::string_view text) {
    std::vector<int64_t> values;
    if (text.empty() && may_be_empty) {
      config.*field = {};
      return;
    }
    for (const std::string& item : split_list(text)) values.push_back(parse_integer(item, range));
    config.*field = std::move(values);
  };
  option.get = [field](const RunConfig& config) {
    std::vector<std::string> items;
    for (const int64_t value : config.*field) items.push_back(std::to_string(value));
    return join(items, ",");
  };
  return option;
}

Option texts_option(About about, std::vector<std::string> RunConfig::*field) {
  Option option = make(std::move(about), "list of texts", ValueForm::text_list);
  option.may_be_empty = true;
  option.set = [field](RunConfig& config, std::string_view text) {
    check_text(text);
    config.*field = text.empty() ? std::vector<std::string>() : split_list(text);
  };
  option.get = [field](const RunConfig& config) { return join(config.*field, ","); };
  return option;
}

Option words_option(About about, std::vector<std::string> RunConfig::*field,
                    const std::vector<std::string>& words) {
  Option option = texts_option(std::move(about), field);
  option.info.range = "any of " + join(words, ", ");
  option.set = [field, words](RunConfig& config, std::string_view text) {
    const std::vector<std::string> given =
        text.empty() ? std::vector<std::string>() : split_list(text);
    for (const std::string& word : given) {
      if (std::find(words.begin(), words.end(), word) == words.end())
        throw BadValue("there is no '" + word + "'", "give any of " + join(words, ", "));
      if (std::count(given.begin(), given.end(), word) > 1)
        throw BadValue("'" + word + "' is given twice", "give it once");
    }
    config.*field = given;
  };
  return option;
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

/// `example` is one object.
template <class T>
Option objects_option(About about, std::vector<T> RunConfig::*field,
                      T (*read)(const io::JsonValue&), const char* example) {
  Option option = make(std::move(about), "list of objects", ValueForm::object_list);
  option.may_be_empty = true;
  option.set = [field, read, example](RunConfig& config, std::string_view text) {
    std::vector<T> items;
    try {
      const io::JsonValue list = io::parse_json(text.empty() ? "[]" : text, "the list");
      if (!list.is_array()) list.fail("must be a list of objects");
      for (int64_t i = 0; i < list.size(); ++i) items.push_back(read(list.at(i)));
    } catch (const Error& error) {
      throw BadValue(error.message(),
                     "write [" + std::string(example) + "], as JSON on the command line");
    }
    config.*field = std::move(items);
  };
  option.get = [field](const RunConfig& config) {
    std::vector<std::string> items;
    for (const T& item : config.*field) items.push_back(text_of(item));
    return items.empty() ? std::string() : "[" + join(items, ", ") + "]";
  };
  return option;
}

// PEFT's names; empty: it has none such.
std::string_view own_key_of_lora(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {{"lora_alpha", "alpha"},
                                                                     {"lora_dropout", "dropout"},
                                                                     {"lora_r", "r"},
                                                                     {"rank", "r"},
                                                                     {"target_modules", "match"}};
  for (const auto& [theirs, own] : kKeys) {
    if (key == theirs) return own;
  }
  return {};
}

LoraOptions read_lora(const io::JsonValue& object) {
  LoraOptions read;
  for (const std::string& key : object.keys()) {
    if (key != "match" && key != "r" && key != "alpha" && key != "dropout")
      object.fail("has no key '" + key + "'" +
                  (own_key_of_lora(key).empty()
                       ? std::string()
                       : ": it is " + std::string(own_key_of_lora(key)) + " here"));
  }
  const io::JsonValue match = object.at("match");
  read.match = match.is_string() ? std::vector{match.as_string()} : match.as_strings();
  if (read.match.empty()) match.fail("needs a pattern");
  for (const std::string& pattern : read.match) {
    check_text(pattern);
    if (pattern.empty()) match.fail("holds an empty pattern");
  }
  if (object.has("r")) read.r = object.at("r").as_int(1, int64_t{1} << 16);
  read.alpha = object.get_double("alpha", read.alpha);
  if (read.alpha <= 0) object.at("alpha").fail("must be above 0");
  read.dropout = object.get_double("dropout", read.dropout);
  if (read.dropout < 0 || read.dropout >= 1) object.at("dropout").fail("must be within [0, 1)");
  return read;
}

std::string text_of(const LoraOptions& lora) {
  std::vector<std::string> patterns;
  for (const std::string& pattern : lora.match) patterns.push_back(io::quote_json(pattern));
  return R"({"match": [)" + join(patterns, ", ") + R"(], "r": )" + std::to_string(lora.r) +
         R"(, "alpha": )" + number_text(lora.alpha) + R"(, "dropout": )" +
         number_text(lora.dropout) + "}";
}

}  // namespace

Option lora_option(About about, LoraOptions RunConfig::*field) {
  Option option = make(std::move(about), "object", ValueForm::object);
  option.may_be_empty = true;
  option.set = [field](RunConfig& config, std::string_view text) {
    try {
      const io::JsonValue object = io::parse_json(text.empty() ? "{}" : text, "the object");
      if (!object.is_object()) object.fail("must be an object");
      config.*field = object.size() == 0 ? LoraOptions() : read_lora(object);
    } catch (const Error& error) {
      throw BadValue(
          error.message(),
          R"(write {"match": "*.query.weight", "r": 8, "alpha": 16, "dropout": 0.1}, as JSON on )"
          "the command line");
    }
  };
  option.get = [field](const RunConfig& config) {
    return (config.*field).is_on() ? text_of(config.*field) : std::string();
  };
  return option;
}

Option groups_option(About about, std::vector<ParameterGroup> RunConfig::*field) {
  return objects_option(std::move(about), field, read_group,
                        R"({"match": "*.bias", "weight_decay": 0})");
}

Option bits_option(About about, std::vector<StateBits> RunConfig::*field) {
  return objects_option(std::move(about), field, read_bits, R"({"match": "*.bias", "bits": 32})");
}

Option precisions_option(About about, std::vector<PrecisionRule> RunConfig::*field) {
  return objects_option(std::move(about), field, read_precision,
                        R"({"match": "*.layer.11.*", "dtype": "float32"})");
}

Option number_of_option(About about, int64_t RunConfig::*field,
                        const std::vector<int64_t>& numbers) {
  std::vector<std::string> words;
  for (const int64_t number : numbers) words.push_back(std::to_string(number));
  return choice_option_of(
      std::move(about), words, {},
      [field, numbers](RunConfig& config, size_t i) { config.*field = numbers[i]; },
      [field, numbers](const RunConfig& config) {
        return static_cast<size_t>(std::find(numbers.begin(), numbers.end(), config.*field) -
                                   numbers.begin());
      });
}

Option memory_option(About about, MemorySpec RunConfig::*field) {
  Option option = make(std::move(about), std::string(kMemoryType), ValueForm::text);
  option.info.range = "bytes, 900MiB, 60%, -512MiB or auto";
  option.set = [field](RunConfig& config, std::string_view text) {
    const std::optional<MemorySpec> spec = try_parse_memory(text);
    if (!spec)
      throw BadValue(quoted(text) + " is not an amount of memory", std::string(kMemoryForms));
    config.*field = *spec;
  };
  option.get = [field](const RunConfig& config) { return to_string(config.*field); };
  return option;
}

Option loss_scale_option(About about, std::string RunConfig::*field) {
  static constexpr std::string_view kWords[] = {"auto", "none", "dynamic", "dynamic_paddle"};
  Option option = make(std::move(about), "one of", ValueForm::text);
  option.info.range = "auto, none, dynamic, dynamic_paddle or a number > 0";
  for (const std::string_view word : kWords) option.info.allowed.emplace_back(word);
  option.set = [field](RunConfig& config, std::string_view text) {
    const bool is_word = std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
    config.*field = is_word ? std::string(text) : number_text(parse_double(text, above(0)));
  };
  option.get = [field](const RunConfig& config) { return config.*field; };
  return option;
}

Option recompute_option(About about, RecomputeSetting RunConfig::*field) {
  // The words of a run configuration and the planner's names.
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"auto", ""},         {"none", "keep-all"}, {"all", "recompute-all"}, {"sqrt", "sqrt"},
      {"memory", "memory"}, {"speed", "speed"},   {"chen", "chen"}};
  static constexpr std::string_view kNumbered[] = {"every:", "chen:", "revolve:"};
  static constexpr std::string_view kMarks = "marks:";
  Option option = make(std::move(about), "one of", ValueForm::text);
  option.info.range =
      "auto, none, all, sqrt, memory, speed, every:K, chen, chen:BYTES, revolve:C, "
      "marks:NAME;NAME";
  for (const auto& [word, name] : kWords) option.info.allowed.emplace_back(word);
  for (const char* form : {"every:K", "chen:BYTES", "revolve:C", "marks:NAME;NAME"})
    option.info.allowed.emplace_back(form);
  option.set = [field](RunConfig& config, std::string_view text) {
    for (const auto& [word, name] : kWords) {
      if (text != word) continue;
      config.*field = {std::string(name)};
      return;
    }
    for (const std::string_view prefix : kNumbered) {
      if (!text.starts_with(prefix)) continue;
      (void)parse_integer(text.substr(prefix.size()), between(1, int64_t{1} << 60));
      config.*field = {std::string(text)};
      return;
    }
    if (!text.starts_with(kMarks) || text.size() == kMarks.size())
      throw BadValue(quoted(text) + " is not allowed");
    check_text(text);
    config.*field = {std::string(text)};
  };
  option.get = [field](const RunConfig& config) {
    const std::string& strategy = (config.*field).strategy;
    for (const auto& [word, name] : kWords) {
      if (strategy == name) return std::string(word);
    }
    return strategy;
  };
  return option;
}

Option choice_option_of(About about, const std::vector<std::string>& words,
                        std::vector<std::pair<std::string, std::string>> aliases,
                        std::function<void(RunConfig&, size_t)> set,
                        std::function<size_t(const RunConfig&)> get) {
  Option option = make(std::move(about), "one of", ValueForm::text);
  option.info.allowed = words;
  option.info.range = join(words, ", ");
  option.set = [words, aliases = std::move(aliases), set = std::move(set)](RunConfig& config,
                                                                           std::string_view text) {
    std::string word(text);
    for (const auto& [alias, canonical] : aliases) {
      if (word == alias) word = canonical;
    }
    for (size_t i = 0; i < words.size(); ++i) {
      if (word == words[i]) {
        set(config, i);
        return;
      }
    }
    throw BadValue(quoted(text) + " is not allowed");
  };
  option.get = [words, get = std::move(get)](const RunConfig& config) {
    return words.at(get(config));
  };
  return option;
}

Option word_option(About about, std::string RunConfig::*field,
                   const std::vector<std::string>& words,
                   std::vector<std::pair<std::string, std::string>> aliases) {
  return choice_option_of(
      std::move(about), words, std::move(aliases),
      [field, words](RunConfig& config, size_t i) { config.*field = words[i]; },
      [field, words](const RunConfig& config) {
        return static_cast<size_t>(std::find(words.begin(), words.end(), config.*field) -
                                   words.begin());
      });
}

Option may_change(Option option) {
  option.info.resume_rule = ResumeRule::may_change;
  return option;
}

Option same_content(Option option) {
  option.info.resume_rule = ResumeRule::same_content;
  return option;
}

}  // namespace snug::config
