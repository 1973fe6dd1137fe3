// SPDX-License-Identifier: Apache-2.0
// For tests: adds storages and ops to a problem with little ceremony.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::plan::testing {

inline std::string numbered(const char* name, int32_t number) {
  std::string text(name);
  text += std::to_string(number);
  return text;
}

/// Bytes are rounded up to 64.
class Maker {
 public:
  StorageId storage(const std::string& name, int64_t bytes, bool resident = false) {
    return problem.storages.add({name, (bytes + 63) / 64 * 64, resident});
  }
  void op(const std::string& name, Phase phase, double seconds, std::vector<StorageId> inputs,
          std::vector<StorageId> outputs, int64_t scratch_bytes = 0) {
    Op made;
    made.name = name;
    made.scope = scope;
    made.phase = phase;
    made.seconds = seconds;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    made.scratch_bytes = (scratch_bytes + 63) / 64 * 64;
    made.may_recompute = phase == Phase::forward;
    uint64_t hash = 1469598103934665603ull;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    made.signature = hash;
    problem.ops.push_back(std::move(made));
  }
  StorageId make(const std::string& name, Phase phase, double seconds,
                 std::vector<StorageId> inputs, int64_t bytes, int64_t scratch_bytes = 0) {
    const StorageId out = storage(scope + "/" + name, bytes);
    op(name, phase, seconds, std::move(inputs), {out}, scratch_bytes);
    return out;
  }

  Problem problem;
  std::string scope;
};

}  // namespace snug::plan::testing
