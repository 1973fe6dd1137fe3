// SPDX-License-Identifier: Apache-2.0
#include "compile/recorder.h"

#include <algorithm>

#include "base/units.h"
#include "graph/text.h"
#include "plan/problem/json.h"

namespace snug::compile {
namespace {

std::string result_of(const Graph& graph) {
  const auto in_step =
      std::count_if(graph.values.begin(), graph.values.end(),
                    [](const Value& value) { return value.kind == ValueKind::computed; });
  const auto residents = static_cast<int64_t>(graph.values.size()) - in_step;
  return std::to_string(graph.nodes.size()) + " ops, " + std::to_string(in_step) +
         " values in the step, " + std::to_string(residents) + " that stay; verified";
}

std::string result_of(const plan::Problem& problem) {
  int64_t most_scratch = 0;
  for (const plan::Op& op : problem.ops) most_scratch = std::max(most_scratch, op.scratch_bytes);
  return std::to_string(problem.ops.size()) + " kernel calls, " +
         std::to_string(problem.storages.size()) + " storages; " + format_bytes(most_scratch) +
         " of scratch at most";
}

}  // namespace

CompileHooks Recorder::hooks() {
  if (records_ == Records::none) return {};
  return {.after = [this](const Compiled& compiled) { add(compiled); }};
}

void Recorder::add(const Compiled& compiled) {
  StageRecord record{.name = compiled.stage, .seconds = compiled.seconds, .result = {}, .text = {}};
  const bool has_text = records_ == Records::texts;
  if (compiled.graph != nullptr) {
    record.result = result_of(*compiled.graph);
    if (has_text) record.text = print(*compiled.graph);
  } else {
    record.result = result_of(compiled.lowered->problem);
    if (has_text) record.text = plan::to_json(compiled.lowered->problem);
  }
  stages_.push_back(std::move(record));
}

}  // namespace snug::compile
