// SPDX-License-Identifier: Apache-2.0
#include "compile/pipeline.h"

#include "compile/fuse_accumulate.h"
#include "compile/remove_dead.h"
#include "graph/verify.h"

namespace snug {

Graph run_pipeline(Graph graph, const OpRegistry& registry, const PipelineHooks& hooks) {
  const auto done = [&](const char* name) {
#ifndef NDEBUG
    verify(graph);
#endif
    if (hooks.after_pass) hooks.after_pass(name, graph);
  };
  graph = remove_dead(std::move(graph));  // gradient helpers that freezing made unnecessary
  done("remove_dead");
  graph = fuse_accumulate(std::move(graph),
                          registry);  // no temporary as large as the largest weight gradient
  done("fuse_accumulate");
  verify(graph);
  return graph;
}

}  // namespace snug
