// SPDX-License-Identifier: Apache-2.0
// Problems for the planner's tests, made by hand: unit chains, Transformer encoders with realistic
// bytes and seconds, random graphs, updates beside recomputation. Test code only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::plan::testing {

/// The ids with these numbers.
inline std::vector<StorageId> storages(std::initializer_list<int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}
inline std::vector<OpId> ops(std::initializer_list<int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// The input and n - 1 ops of one unit (64 bytes) each; the backward of an op reads its output. The
/// gradient is one unit.
[[nodiscard]] Problem unit_chain(int32_t n);

/// A homogeneous chain for Revolve: the backward of op i reads its input only.
[[nodiscard]] Problem input_chain(int32_t n);

struct EncoderShape {
  int32_t layers = 12;
  int64_t tokens = 2048;
  int64_t hidden = 768;
  int64_t heads = 12;
  /// Weight gradients are added into resident buffers and updated at the end; otherwise each update
  /// follows its gradient.
  bool accumulates = true;
  bool updates_at_end =
      false;  // only without accumulation: gradients live in the arena until the end
};
/// A post-LN BERT-like encoder with a mask made once, pooler, classifier and loss.
[[nodiscard]] Problem encoder(const EncoderShape& shape);

struct RecurrentShape {
  int32_t steps = 1000;
  int32_t layers = 1;
  int64_t rows = 64;
  int64_t hidden = 256;
};
/// An LSTM unrolled over time, with padded steps masked: h and c of every layer cross from step to
/// step. Weight gradients are added into resident buffers.
[[nodiscard]] Problem recurrent_net(const RecurrentShape& shape);

/// A U-Net: `levels` times two convolutions and a pooling, then the way back, where the result of
/// each level's second convolution is read again.
[[nodiscard]] Problem u_net(int32_t levels);

struct RandomShape {
  int32_t forward_ops = 12;
  int32_t max_inputs = 3;
  bool has_updates = false;
};
/// Forward ops with random inputs, then their gradients in reverse order, reading random forward
/// storages.
[[nodiscard]] Problem random_training_graph(uint64_t seed, const RandomShape& shape);

/// Gives about every second op variants: one that computes what it reads within (from what that is
/// made of, in the time of both), one that is slower and has no scratch.
void add_random_variants(uint64_t seed, Problem& problem);

/// Forward ops alone (an evaluation step).
[[nodiscard]] Problem evaluation_chain(int32_t n);

/// Resident states only: what an optimizer step with no graph looks like.
[[nodiscard]] Problem update_only(int32_t n);

/// Weight w of the second op is updated directly after its gradient, while a recomputation that
/// reads w is still wanted.
[[nodiscard]] Problem stale_weight_hazard();

}  // namespace snug::plan::testing
