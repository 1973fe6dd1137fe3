// SPDX-License-Identifier: Apache-2.0
// The key lora: one object, with the names of PEFT's LoraConfig where they differ, too.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.h"
#include "base/utf8.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "snug/error.h"
#include "spec/kinds.h"

namespace snug::spec {
namespace {

constexpr std::array<std::string_view, 3> kBiases = {"none", "all", "lora_only"};
constexpr int64_t kMostRank = int64_t{1} << 16;

/// Names of the object's fields: `name` is PEFT's for the same.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"lora_alpha", "alpha"}, {"lora_dropout", "dropout"}};
constexpr std::string_view kFields[] = {
    "match",         "r",          "alpha", "dropout",        "target_modules", "rank_pattern",
    "alpha_pattern", "use_rslora", "bias",  "modules_to_save"};

std::string own_name(const std::string& key) {
  for (const auto& [theirs, own] : kOtherNames) {
    if (key == theirs) return std::string(own);
  }
  return key;
}

/// What a LoraConfig says that is so anyway.
bool is_so_anyway(std::string_view key, const io::JsonValue& value) {
  if (key == "task_type")
    return value.is_string() &&
           (value.as_string() == "SEQ_CLS" || value.as_string() == "TOKEN_CLS");
  if (key == "peft_type") return value.is_string() && value.as_string() == "LORA";
  const bool is_false =
      (value.is_bool() && !value.as_bool()) ||
      (value.is_string() && (value.as_string() == "false" || value.as_string() == "False"));
  return (key == "inference_mode" || key == "use_dora" || key == "fan_in_fan_out") && is_false;
}

/// The fields of the object under their own names.
class Fields {
 public:
  explicit Fields(const io::JsonValue& object) : object_(object) {
    for (const std::string& key : object.keys()) {
      const std::string name = own_name(key);
      const auto value = object.find(key);
      if (!value || is_so_anyway(key, *value)) continue;  // null asks for nothing
      if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields))
        object.fail("has no key '" + key + "'" + (key == "rank" ? ": it is r here" : ""));
      for (const auto& [before, held] : values_) {
        if (before == name)
          object.fail("has '" + key + "' and '" + held.path() + "', which are the same");
      }
      values_.emplace_back(name, *value);
    }
  }
  [[nodiscard]] std::optional<io::JsonValue> find(std::string_view name) const {
    for (const auto& [own, value] : values_) {
      if (own == name) return value;
    }
    return {};
  }

 private:
  const io::JsonValue& object_;
  std::vector<std::pair<std::string, io::JsonValue>> values_;
};

void check_name(const io::JsonValue& value, const std::string& text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 32 || c == 127;
  });
  if (text.empty()) value.fail("holds an empty name");
  if (has_control || first_invalid_utf8(text))
    value.fail("holds control characters or is not UTF-8");
}

std::vector<std::string> names_of(const io::JsonValue& value) {
  std::vector<std::string> names = value.as_strings();
  for (const std::string& name : names) check_name(value, name);
  return names;
}

double above_zero(const io::JsonValue& value) {
  const double number = value.as_double();
  if (number <= 0) value.fail("must be above 0");
  return number;
}

bool flag_of(const io::JsonValue& value) {
  if (value.is_bool()) return value.as_bool();
  const std::string text = value.as_string();
  if (text != "true" && text != "True" && text != "false" && text != "False")
    value.fail("must be true or false");
  return text == "true" || text == "True";
}

template <class Number, class Read>
std::vector<LoraRule<Number>> rules_of(const io::JsonValue& object, Read read) {
  if (!object.is_object()) object.fail("must be an object of names and numbers");
  std::vector<LoraRule<Number>> rules;
  for (const std::string& key : object.keys()) {
    check_name(object, key);
    rules.push_back({key, read(object.at(key))});
  }
  return rules;
}

void read_targets(const Fields& fields, const io::JsonValue& object, LoraOptions& read) {
  const auto match = fields.find("match");
  const auto targets = fields.find("target_modules");
  if (match && targets) object.fail("has match and target_modules: give one of them");
  if (match) {
    read.match = match->is_string() ? std::vector{match->as_string()} : match->as_strings();
    if (read.match.empty()) match->fail("needs a pattern");
    for (const std::string& pattern : read.match) {
      if (pattern.empty()) match->fail("holds an empty pattern");
      check_name(*match, pattern);
    }
  } else if (targets && targets->is_string()) {
    read.target_expression = targets->as_string();
    check_name(*targets, read.target_expression);
  } else if (targets) {
    read.target_modules = names_of(*targets);
    if (read.target_modules.empty()) targets->fail("needs a name");
  } else {
    (void)object.at("match");  // fails
  }
}

LoraOptions read_lora(const io::JsonValue& object) {
  const Fields fields(object);
  LoraOptions read;
  read_targets(fields, object, read);
  if (const auto r = fields.find("r")) read.r = r->as_int(1, kMostRank);
  if (const auto alpha = fields.find("alpha")) read.alpha = above_zero(*alpha);
  if (const auto dropout = fields.find("dropout")) {
    read.dropout = dropout->as_double();
    if (read.dropout < 0 || read.dropout >= 1) dropout->fail("must be within [0, 1)");
  }
  if (const auto ranks = fields.find("rank_pattern"))
    read.rank_pattern = rules_of<int64_t>(
        *ranks, [](const io::JsonValue& value) { return value.as_int(1, kMostRank); });
  if (const auto alphas = fields.find("alpha_pattern"))
    read.alpha_pattern = rules_of<double>(*alphas, above_zero);
  if (const auto scale = fields.find("use_rslora")) read.use_rslora = flag_of(*scale);
  if (const auto bias = fields.find("bias")) {
    const auto found = std::find(kBiases.begin(), kBiases.end(), bias->as_string());
    if (found == kBiases.end()) bias->fail("must be none, all or lora_only");
    read.bias = static_cast<LoraBias>(found - kBiases.begin());
  }
  if (const auto saved = fields.find("modules_to_save")) read.modules_to_save = names_of(*saved);
  return read;
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> items;
  for (const std::string& name : names) items.push_back(io::quote_json(name));
  return "[" + join(items, ", ") + "]";
}

template <class Number, class Print>
std::string text_of(const std::vector<LoraRule<Number>>& rules, Print print) {
  std::vector<std::string> items;
  for (const LoraRule<Number>& rule : rules)
    items.push_back(io::quote_json(rule.expression) + ": " + print(rule.value));
  return "{" + join(items, ", ") + "}";
}

// What is as without it is not said.
std::string text_of(const LoraOptions& lora) {
  std::string text = !lora.match.empty() ? R"({"match": )" + list_of(lora.match)
                     : lora.target_expression.empty()
                         ? R"({"target_modules": )" + list_of(lora.target_modules)
                         : R"({"target_modules": )" + io::quote_json(lora.target_expression);
  text += R"(, "r": )" + std::to_string(lora.r) + R"(, "alpha": )" + number_text(lora.alpha) +
          R"(, "dropout": )" + number_text(lora.dropout);
  if (!lora.rank_pattern.empty())
    text += R"(, "rank_pattern": )" +
            text_of(lora.rank_pattern, [](int64_t rank) { return std::to_string(rank); });
  if (!lora.alpha_pattern.empty())
    text += R"(, "alpha_pattern": )" +
            text_of(lora.alpha_pattern, [](double alpha) { return number_text(alpha); });
  if (lora.use_rslora) text += R"(, "use_rslora": true)";
  if (lora.bias != LoraBias::none)
    text += R"(, "bias": ")" + std::string(kBiases.at(static_cast<size_t>(lora.bias))) + "\"";
  if (!lora.modules_to_save.empty())
    text += R"(, "modules_to_save": )" + list_of(lora.modules_to_save);
  return text + "}";
}

}  // namespace

Kind<LoraOptions> lora() {
  return {
      .info = {.type = "object", .form = ValueForm::object, .may_be_empty = true},
      .parse =
          [](std::string_view text) {
            try {
              const io::JsonValue object = io::parse_json(text.empty() ? "{}" : text, "the object");
              if (!object.is_object()) object.fail("must be an object");
              return object.size() == 0 ? LoraOptions() : read_lora(object);
            } catch (const Error& error) {
              throw BadValue(
                  error.message(),
                  R"(write {"match": "*.query.weight", "r": 8, "alpha": 16, "dropout": 0.1}, )"
                  "as JSON on the command line");
            }
          },
      .print =
          [](const LoraOptions& value) { return value.is_on() ? text_of(value) : std::string(); }};
}

}  // namespace snug::spec
