// SPDX-License-Identifier: Apache-2.0
// A forward trace: a network's forward part for so many rows, behind its rewrites, and what its
// weights are to training. Who asks for names, types or roles asks a trace.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compile/network_def.h"

namespace snug::compile {

/// A parameter or a buffer.
struct Weight {
  Value value;
  bool is_head = false;
  bool is_frozen = false;  // whatever a recipe says
  bool is_table = false;   // of embeddings: rows of it are taken by number or by place

  [[nodiscard]] bool is_parameter() const { return value.kind == ValueKind::parameter; }
};

struct Forward {
  Graph graph;                  // its loss, in training, is the output "loss"
  std::vector<Weight> weights;  // in the order of the graph; the same for all rows and lengths
};

/// The network, of which programs are made with these changes; what is traced of it is kept. Throws
/// Error{bad_config} at "lora" for numbers that are out of range.
[[nodiscard]] NetworkDef with_changes(NetworkDef network, ForwardChanges changes);

/// Lets go what was traced of it, but for its weights.
void let_traces_go(const NetworkDef& network);
/// The weights of a forward part, with their roles.
[[nodiscard]] std::vector<Weight> weights_in(const Graph& graph, const NetworkDef& network);

/// What was traced of one network, so that it is built once for each request. The newest trace of
/// training and that of evaluation stay until let_graphs_go(): the forms of a split follow one
/// another. The weights stay.
class TraceCache {
 public:
  using Trace = std::shared_ptr<const Forward>;
  [[nodiscard]] Trace get(const BuildRequest& request, const std::function<Trace()>& make);
  /// Those of any trace of training.
  [[nodiscard]] std::vector<Weight> weights(const std::function<Trace()>& make);
  void let_graphs_go();

 private:
  struct Kept {
    BuildRequest request = {};
    Trace trace = nullptr;
  };
  std::mutex mutex_;
  Kept training_, evaluation_;
  std::optional<std::vector<Weight>> weights_;
};

}  // namespace snug::compile
