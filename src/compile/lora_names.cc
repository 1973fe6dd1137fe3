// SPDX-License-Identifier: Apache-2.0
#include "compile/lora_names.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "snug/error.h"

namespace snug {
namespace {

constexpr std::string_view kWeightEnd = ".weight";
constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";

template <class Number>
Number value_of(const std::vector<LoraRule<Number>>& rules, const std::string& weight,
                Number otherwise) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const auto& rule) {
    return is_rule_for(rule.expression, weight);
  });
  return found == rules.end() ? otherwise : found->value;
}

}  // namespace

namespace compile {

void refuse_lora(const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "lora", what, hint);
}

std::string module_of(const std::string& weight) {
  return weight.ends_with(kWeightEnd) ? weight.substr(0, weight.size() - kWeightEnd.size())
                                      : weight;
}

Expression lora_expression(const std::string& pattern, const std::string& text) {
  try {
    return Expression(text);
  } catch (const BadExpression& bad) {
    refuse_lora("'" + pattern + "' is no expression that could be read: " + bad.what(),
                "write it as Python's re does, without what is not supported");
  }
}

}  // namespace compile

AdapterNames adapter_names(const std::string& weight) {
  const std::string map = compile::module_of(weight);
  return {map + kA, map + kB};
}

bool is_adapter_name(const std::string& weight) {
  return weight.ends_with(kA) || weight.ends_with(kB);
}

// PEFT's get_pattern_key.
bool is_rule_for(const std::string& expression, const std::string& weight) {
  return compile::lora_expression(expression, "(.*\\.)?(" + expression + ")")
      .matches(compile::module_of(weight));
}

AdapterSize adapter_size(const LoraOptions& lora, const std::string& weight) {
  const int64_t rank = value_of(lora.rank_pattern, weight, lora.r);
  const double alpha = value_of(lora.alpha_pattern, weight, lora.alpha);
  const auto rows = static_cast<double>(rank);
  return {rank, alpha / (lora.use_rslora ? std::sqrt(rows) : rows)};
}

}  // namespace snug
