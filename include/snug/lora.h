// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (LoRA): beside a frozen linear map of weight W two small matrices are trained,
// y = x W^T + b + (alpha / r) (dropout(x) A^T) B^T. docs/lora.md says more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// Which biases of the base are trained beside adapters: none, all, or those of the maps that have
/// one.
enum class LoraBias : uint8_t { none, all, lora_only };

/// Linear maps whose names end in what the expression matches, as PEFT's rank_pattern has them
/// (re.match of "(.*\.)?(EXPRESSION)$" with the name without ".weight"), and their own rank or
/// alpha.
template <class Number>
struct LoraRule {
  std::string expression;
  Number value = 0;
  bool operator==(const LoraRule&) const = default;
};

/// What has an adapter is said by `match`, or as in PEFT by `target_modules` or
/// `target_expression`; without any of them there are no adapters. With adapters nothing is trained
/// but these, the head of the network, and what `bias` and `modules_to_save` say. Names of modules
/// are those of weights without ".weight".
struct LoraOptions {
  /// Patterns of names (* matches any text) of weights that are linear maps.
  std::vector<std::string> match = {};
  int64_t r = 8;       // rows of A
  double alpha = 8;    // what B A counts, times r
  double dropout = 0;  // of what A reads

  /// Linear maps that are called so, or whose names end so behind a dot; the head has none.
  std::vector<std::string> target_modules = {};
  /// "all-linear", or a regular expression (Python's) that matches whole names of linear maps.
  std::string target_expression = {};
  /// The first that matches a map says its rank, or alpha.
  std::vector<LoraRule<int64_t>> rank_pattern = {};
  std::vector<LoraRule<double>> alpha_pattern = {};
  bool use_rslora = false;  // an adapter counts alpha / sqrt(r)
  LoraBias bias = LoraBias::none;
  /// Modules whose names end so: they are trained whole, and have no adapters.
  std::vector<std::string> modules_to_save = {};

  [[nodiscard]] bool is_on() const {
    return !match.empty() || !target_modules.empty() || !target_expression.empty();
  }
  bool operator==(const LoraOptions&) const = default;
};

inline constexpr const char* kAllLinear = "all-linear";

/// Whether a rule with this expression is for the map of this weight. Throws Error{bad_config} for
/// an expression that is none.
[[nodiscard]] bool is_rule_for(const std::string& expression, const std::string& weight);

/// The size of the adapter that a weight has.
struct AdapterSize {
  int64_t rank = 0;
  double scale = 1;  // what B A counts
};
/// Throws Error{bad_config} for an expression that is none.
[[nodiscard]] AdapterSize adapter_size(const LoraOptions& lora, const std::string& weight);

/// How the two weights of an adapter are called: as PEFT's, behind the name of the linear map.
struct AdapterNames {
  std::string a;  // (r, in)
  std::string b;  // (out, r)
};
[[nodiscard]] AdapterNames adapter_names(const std::string& weight);
/// Whether a weight is one of these two.
[[nodiscard]] bool is_adapter_name(const std::string& weight);

}  // namespace snug
