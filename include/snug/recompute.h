// SPDX-License-Identifier: Apache-2.0
// What the backward part finds and what it makes again, said by the network's author as in the
// systems that people come from (docs/coming-from.md). A session follows such marks exactly unless
// SessionOptions::recompute says otherwise; gradients have the same bits in any case.
//
//   x = snug::checkpoint(b, [&](snug::Tensor in) { return layer(b, in); }, x);  // PyTorch
//   x = snug::keep(x);                                                         // TensorFlow 1
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "snug/network.h"

namespace snug {

/// Marks a tensor to be kept. In a network without checkpointed parts all that leads to a mark is
/// run again from the mark before it, once, and what is behind the last mark is kept; in a
/// checkpointed part the tensor is kept although the rest of the part is not. Returns x. Inputs
/// and weights are kept anyway.
Tensor keep(const Tensor& x);
/// Gives a computed tensor the name SCOPE.name, for reports and "marks:NAME". Returns x.
Tensor named(const std::string& name, const Tensor& x);

/// What is built in its lifetime is one checkpointed part: nothing that is made in it is kept, but
/// what the rest of the network needs, and it is run again before its backward part. Parts may lie
/// within parts.
class CheckpointedPart {
 public:
  explicit CheckpointedPart(NetworkBuilder& builder);
  ~CheckpointedPart();
  CheckpointedPart(const CheckpointedPart&) = delete;
  CheckpointedPart& operator=(const CheckpointedPart&) = delete;
  /// Throws Error{invalid_graph} where nothing was built in it: there is nothing to run again.
  void check_used() const;

 private:
  NetworkBuilder& builder_;
  std::vector<int32_t> before_;
  size_t first_;
};

/// torch.utils.checkpoint: what `fn` builds is one part; gives what it gives.
template <class Fn, class... Inputs>
auto checkpoint(NetworkBuilder& builder, Fn&& fn, Inputs&&... inputs) {
  const CheckpointedPart part(builder);
  auto outputs = std::forward<Fn>(fn)(std::forward<Inputs>(inputs)...);
  part.check_used();
  return outputs;
}

using TensorFunction = std::function<Tensor(const Tensor&)>;
/// torch.utils.checkpoint.checkpoint_sequential: segments of functions.size() / segments functions
/// each, the last with what is left over; the last is not checkpointed.
Tensor checkpoint_sequential(NetworkBuilder& builder, const std::vector<TensorFunction>& functions,
                             int64_t segments, Tensor x);

/// recompute_grad of Keras: a layer, called as layer(builder, ...), each of whose calls is a
/// checkpointed part.
template <class Layer>
auto recompute_grad(Layer layer) {
  return [layer = std::move(layer)](NetworkBuilder& builder, auto&&... inputs) {
    const CheckpointedPart part(builder);
    auto outputs = layer(builder, std::forward<decltype(inputs)>(inputs)...);
    part.check_used();
    return outputs;
  };
}

/// A layer of your own that inherits recompute_grad: derive from it and write call().
class RecomputedLayer {
 public:
  RecomputedLayer() = default;
  RecomputedLayer(const RecomputedLayer&) = default;
  RecomputedLayer& operator=(const RecomputedLayer&) = default;
  virtual ~RecomputedLayer() = default;
  Tensor operator()(NetworkBuilder& builder, const Tensor& x) const;

 private:
  [[nodiscard]] virtual Tensor call(NetworkBuilder& builder, const Tensor& x) const = 0;
};

}  // namespace snug
