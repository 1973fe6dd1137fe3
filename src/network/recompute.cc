// SPDX-License-Identifier: Apache-2.0
#include "snug/recompute.h"

#include "network/facts.h"
#include "nn/layers.h"
#include "snug/error.h"

namespace snug {

Tensor keep(const Tensor& x) {
  NetworkBuilder::State& state = x.builder().state();
  const ValueId id = network::value_of(x.builder(), x, "x");
  network::require_network(x.builder(), "keep()");
  if (!x.builder().training() || state.graph.graph().is_resident(id)) return x;
  state.graph.mark_kept(id);
  state.facts.has_marks = true;
  return x;
}

Tensor named(const std::string& name, const Tensor& x) {
  GraphBuilder& graph = x.builder().state().graph;
  const ValueId id = network::value_of(x.builder(), x, "x");
  const std::string full = nn::scoped(graph, name);
  network::require_network(x.builder(), "named()");
  const Value& value = graph.graph().value(id);
  if (!value.name.empty() || name.empty())
    throw Error(
        ErrorCode::invalid_graph, full,
        name.empty() ? "a name is empty" : "the tensor is called '" + value.name + "' already");
  network::check_name(x.builder(), full);
  if (x.builder().training()) graph.set_name(id, full);
  return x;
}

CheckpointedPart::CheckpointedPart(NetworkBuilder& builder)
    : builder_(builder),
      before_(builder.state().graph.parts()),
      first_(builder.state().graph.graph().nodes.size()) {
  network::require_network(builder, "checkpoint()");
  if (!builder.training()) return;
  GraphBuilder& graph = builder.state().graph;
  graph.set_parts(graph.inner_part());
  builder.state().facts.has_marks = true;
}

CheckpointedPart::~CheckpointedPart() { builder_.state().graph.set_parts(before_); }

void CheckpointedPart::check_used() const {
  if (builder_.state().graph.graph().nodes.size() > first_) return;
  throw Error(ErrorCode::invalid_graph, builder_.scope().empty() ? "network" : builder_.scope(),
              "a checkpointed part computes nothing: there is nothing to run again",
              "build its ops within the function that it is given");
}

Tensor checkpoint_sequential(NetworkBuilder& builder, const std::vector<TensorFunction>& functions,
                             int64_t segments, Tensor x) {
  const auto count = static_cast<int64_t>(functions.size());
  if (segments < 1 || segments > count)
    throw Error(ErrorCode::invalid_graph, "checkpoint_sequential",
                std::to_string(segments) + " segments of " + std::to_string(count) + " functions",
                "give 1 to " + std::to_string(count));
  if (!std::all_of(functions.begin(), functions.end(), [](const auto& each) { return bool(each); }))
    throw Error(ErrorCode::invalid_graph, "checkpoint_sequential", "one of the functions is none");
  const int64_t size = count / segments;
  const auto run = [&](int64_t begin, int64_t end, Tensor in) {
    for (int64_t i = begin; i < end; ++i) in = functions[static_cast<size_t>(i)](in);
    return in;
  };
  for (int64_t segment = 0; segment + 1 < segments; ++segment)
    x = checkpoint(
        builder, [&](const Tensor& in) { return run(segment * size, (segment + 1) * size, in); },
        x);
  return run((segments - 1) * size, count, x);
}

Tensor RecomputedLayer::operator()(NetworkBuilder& builder, const Tensor& x) const {
  return checkpoint(
      builder, [&](const Tensor& in) { return call(builder, in); }, x);
}

}  // namespace snug
