// SPDX-License-Identifier: Apache-2.0
// What a session holds.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "network/facts.h"
#include "session/feeder.h"
#include "session/machine.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug {

class Session::Impl {
 public:
  Impl(const Network& network, const SessionOptions& given, int64_t micro_batch);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Evaluation run_eval(const RowSource& rows, const OutputSink& sink,
                      const std::vector<std::string>& inputs);
  /// The rows of a step. Throws Error{bad_data} where they are none that the session can train on.
  [[nodiscard]] Feeder fed(const RowSource& batch) const;
  [[nodiscard]] train::UpdateResult update(const Feeder& batch);
  /// What was summed up before rows that failed belongs to no update.
  void drop_gradients();
  /// Throws Error{bad_config} for a name that there is not.
  [[nodiscard]] const ResidentLayout::Entry& entry(const std::string& tensor) const;

  SessionOptions options;
  std::string name;
  train::Machine machine;
  NetworkDef def;
  NetworkFacts facts;
  train::UpdateRule rule;
  std::set<std::string> trained;  // names of parameters
  train::RunPlan plan;            // the engine refers to it
  std::unique_ptr<train::Engine> engine;
  train::UpdateCounts counts;
};

}  // namespace snug
