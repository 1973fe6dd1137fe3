// SPDX-License-Identifier: Apache-2.0
// A network's function in C: its builder, and what it may call there by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "snug/network.h"
#include "snug/recompute.h"
#include "snug/snug_session_c.h"

/// What a callback holds while it builds. Its tensors are known to it by their numbers.
struct snug_builder {
 public:
  explicit snug_builder(snug::NetworkBuilder& builder) : b(builder) {}
  snug_builder(const snug_builder&) = delete;
  snug_builder& operator=(const snug_builder&) = delete;
  ~snug_builder() {  // the last that was opened first
    while (!scopes.empty()) scopes.pop_back();
    while (!parts.empty()) parts.pop_back();
  }

  [[nodiscard]] int32_t number_of(const snug::Tensor& tensor) {
    tensors.push_back(tensor);
    return static_cast<int32_t>(tensors.size()) - 1;
  }
  /// -1 is none. Throws Error{invalid_graph} for a number that it did not give.
  [[nodiscard]] snug::Tensor tensor(int64_t number) const;
  /// What a callback's answer means: nothing, its last error, or a failure of its own.
  void check(int64_t answer) const;

  snug::NetworkBuilder& b;
  std::vector<snug::Tensor> tensors;
  std::vector<std::unique_ptr<snug::Scope>> scopes;
  std::vector<std::unique_ptr<snug::CheckpointedPart>> parts;
  std::optional<snug::Error> last_error;
};

namespace snug::c_api {

[[nodiscard]] Json json_of(const TensorType& type);
[[nodiscard]] TensorType type_of(const std::string& where, const Json& json);
/// Throws Error{invalid_graph} for a name that is none.
[[nodiscard]] DType dtype_named(const std::string& where, const std::string& name);

/// A call of the network, by name: JSON text.
[[nodiscard]] std::string build_call(snug_builder& builder, const std::string& name,
                                     const std::vector<Tensor>& operands, const Json& attributes);

}  // namespace snug::c_api
