// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (LoRA): beside a frozen linear map of weight W two small matrices are trained,
// y = x W^T + b + (alpha / r) (dropout(x) A^T) B^T. docs/lora.md says more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

struct LoraOptions {
  /// Patterns of names (* matches any text) of weights that are linear maps; empty: no adapters.
  /// With adapters nothing is trained but these and the head of the network.
  std::vector<std::string> match;
  int64_t r = 8;       // rows of A
  double alpha = 8;    // what B A counts, times r
  double dropout = 0;  // of what A reads

  [[nodiscard]] bool is_on() const { return !match.empty(); }
  bool operator==(const LoraOptions&) const = default;
};

/// How the two weights of an adapter are called: as PEFT's, behind the name of the linear map.
struct AdapterNames {
  std::string a;  // (r, in)
  std::string b;  // (out, r)
};
[[nodiscard]] AdapterNames adapter_names(const std::string& weight);
/// Whether a weight is one of these two.
[[nodiscard]] bool is_adapter_name(const std::string& weight);

}  // namespace snug
