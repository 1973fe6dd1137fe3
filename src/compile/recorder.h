// SPDX-License-Identifier: Apache-2.0
// Writes down what the stages of a compilation came to, for `snug explain`.
#pragma once

#include <string>
#include <vector>

#include "compile/rewrite.h"

namespace snug::compile {

/// What of a compilation is written down.
enum class Records : uint8_t { none, results, texts };

struct StageRecord {
  std::string name;
  double seconds = 0;
  std::string result;  // what stands then, in a line
  std::string text;    // all of it: a graph, a problem; empty unless texts are asked for
};

class Recorder {
 public:
  explicit Recorder(Records records) : records_(records) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Refer to this recorder; empty where nothing is written down.
  [[nodiscard]] CompileHooks hooks();
  [[nodiscard]] std::vector<StageRecord> take() { return std::move(stages_); }

 private:
  void add(const Compiled& compiled);

  Records records_;
  std::vector<StageRecord> stages_;
};

}  // namespace snug::compile
