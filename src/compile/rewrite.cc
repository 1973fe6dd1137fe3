// SPDX-License-Identifier: Apache-2.0
#include "compile/rewrite.h"

#include <chrono>
#include <utility>

#include "base/stop.h"
#include "graph/verify.h"

namespace snug::compile {

Graph run_stage(const char* name, const CompileHooks& hooks, const std::function<Graph()>& make) {
  using Clock = std::chrono::steady_clock;
  stop_point();
  const Clock::time_point start = Clock::now();
  Graph graph = make();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  bool is_verified = static_cast<bool>(hooks.after);
#ifndef NDEBUG
  is_verified = true;
#endif
  if (is_verified) verify(graph);
  if (hooks.after)
    hooks.after({.stage = name, .seconds = seconds, .graph = &graph, .lowered = nullptr});
  return graph;
}

Graph run_rewrites(std::span<const Rewrite> rewrites, Graph graph, const Job& job) {
  for (const Rewrite& rewrite : rewrites) {
    if (!rewrite.applies(job)) continue;
    graph = run_stage(rewrite.name, job.hooks, [&] { return rewrite.run(std::move(graph), job); });
  }
  return graph;
}

}  // namespace snug::compile
