// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/test_problems.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "plan/problem/test_maker.h"

namespace snug::plan::testing {
namespace {

constexpr int64_t kUnit = 64;

Problem chain(int32_t n, bool reads_output) {
  Maker maker;
  std::vector<StorageId> y;
  y.push_back(maker.make("input", Phase::forward, 0, {}, kUnit));
  maker.problem.ops.back().may_recompute = false;
  for (int32_t i = 1; i < n; ++i)
    y.push_back(maker.make("f", Phase::forward, 1, {y.back()}, kUnit));
  StorageId dy = maker.make("loss_grad", Phase::backward, 0, {y.back()}, kUnit);
  for (int32_t i = n - 1; i >= 1; --i) {
    const StorageId read = y[static_cast<size_t>(reads_output ? i : i - 1)];
    dy = maker.make("b", Phase::backward, 1, {read, dy}, kUnit);
  }
  maker.problem.keep = {dy};
  return std::move(maker.problem);
}

}  // namespace

Problem unit_chain(int32_t n) { return chain(n, true); }
Problem input_chain(int32_t n) { return chain(n, false); }

Problem u_net(int32_t levels) {
  struct Conv {
    StorageId x, y;
    int64_t bytes;
    StorageId skip;
  };
  Maker maker;
  std::vector<Conv> convs;
  const auto conv = [&](StorageId x, int64_t bytes, StorageId skip = kNone) {
    std::vector<StorageId> inputs{x};
    if (skip != kNone) inputs.push_back(skip);
    const StorageId y =
        maker.make("conv", Phase::forward, static_cast<double>(bytes), inputs, bytes);
    convs.push_back({x, y, bytes, skip});
    return y;
  };
  StorageId x = maker.make("input", Phase::forward, 0, {}, kUnit);
  maker.problem.ops.back().may_recompute = false;
  std::vector<StorageId> skips;
  int64_t bytes = kUnit << (2 * levels);
  for (int32_t level = 0; level < levels; ++level, bytes /= 2) {
    for (int32_t i = 0; i < 3; ++i) x = conv(x, bytes);
    skips.push_back(x);
  }
  for (int32_t i = 0; i < 3; ++i) x = conv(x, bytes);
  for (; !skips.empty(); skips.pop_back()) {
    bytes *= 2;
    x = conv(x, bytes, skips.back());
    for (int32_t i = 0; i < 2; ++i) x = conv(x, bytes);
  }
  StorageId dy = maker.make("loss_grad", Phase::backward, 0, {x}, bytes);
  std::vector<std::pair<StorageId, StorageId>> waiting;  // gradients of skips
  for (; !convs.empty(); convs.pop_back()) {
    const Conv& each = convs.back();
    for (const auto& [skip, gradient] : waiting) {
      if (skip == each.y) dy = maker.make("add", Phase::backward, 1, {dy, gradient}, each.bytes);
    }
    const auto seconds = static_cast<double>(2 * each.bytes);
    std::vector<StorageId> inputs{dy, each.x};
    const int64_t dx_bytes = maker.problem.storages[each.x].bytes;
    if (each.skip != kNone) {
      inputs.push_back(each.skip);
      const StorageId dskip = maker.make("skip_grad", Phase::backward, 0, {dy}, each.bytes);
      waiting.emplace_back(each.skip, dskip);
    }
    dy = maker.make("conv_grad", Phase::backward, seconds, inputs, dx_bytes);
  }
  maker.problem.keep = {dy};
  return std::move(maker.problem);
}

Problem random_training_graph(uint64_t seed, const RandomShape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  Maker maker;
  std::vector<StorageId> forward;
  std::vector<StorageId> weights;
  for (int32_t i = 0; i < shape.forward_ops; ++i) {
    std::vector<StorageId> inputs;
    const size_t wanted = forward.empty() ? 0 : 1 + below(static_cast<size_t>(shape.max_inputs));
    for (size_t k = 0; k < wanted; ++k) {
      // Mostly recent storages, sometimes an old one: a chain with skips.
      const size_t reach = below(4) == 0 ? forward.size() : std::min<size_t>(forward.size(), 3);
      const StorageId input = forward[forward.size() - 1 - below(reach)];
      if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
    }
    weights.push_back(maker.storage(numbered("w", i), 64, true));
    inputs.push_back(weights.back());
    const auto seconds = static_cast<double>(1 + below(5));
    const auto bytes = static_cast<int64_t>(64 * below(6));
    std::vector<StorageId> outputs{maker.storage(numbered("y", i), bytes)};
    forward.push_back(outputs.front());
    if (below(4) == 0) {
      outputs.push_back(maker.storage(numbered("z", i), static_cast<int64_t>(64 * below(3))));
      forward.push_back(outputs.back());
    }
    maker.op(numbered("f", i), Phase::forward, seconds, inputs, outputs,
             static_cast<int64_t>(64 * below(2)));
    if (below(8) == 0) maker.problem.ops.back().may_recompute = false;
  }
  StorageId dy = maker.make("loss_grad", Phase::backward, 1, {forward.back()}, 64);
  for (int32_t i = shape.forward_ops - 1; i >= 0; --i) {
    const Op source = maker.problem.ops[OpId(i)];
    std::vector<StorageId> inputs{dy};
    for (const StorageId id : source.inputs) {
      if (below(3) > 0) inputs.push_back(id);
    }
    if (below(2) == 0) inputs.push_back(source.outputs.front());
    dy = maker.make(numbered("b", i), Phase::backward, 2, inputs,
                    static_cast<int64_t>(64 * (1 + below(4))));
    if (!shape.has_updates) continue;
    const StorageId w = weights[static_cast<size_t>(i)];
    const StorageId dw =
        maker.make(numbered("dw", i), Phase::backward, 1, {dy, source.outputs.front()}, 64);
    maker.op(numbered("update", i), Phase::update, 1, {w, dw}, {w});
  }
  maker.problem.keep = {dy};
  return std::move(maker.problem);
}

namespace {

// Nothing where the op reads nothing that can be made within: by an op whose resident inputs it
// reads as well.
std::optional<Op> with_maker_within(const Problem& problem, const Op& op, uint64_t pick) {
  if (op.inputs.empty()) return std::nullopt;
  const StorageId made = op.inputs[pick % op.inputs.size()];
  const auto is_maker = [&](const Op& other) {
    return std::find(other.outputs.begin(), other.outputs.end(), made) != other.outputs.end();
  };
  if (problem.storages[made].resident) return std::nullopt;
  const Op& maker = *std::find_if(problem.ops.begin(), problem.ops.end(), is_maker);
  Op variant = op;
  std::erase(variant.inputs, made);
  for (const StorageId input : maker.inputs) {
    const bool is_read = std::find(op.inputs.begin(), op.inputs.end(), input) != op.inputs.end();
    if (problem.storages[input].resident && !is_read) return std::nullopt;
    if (std::find(variant.inputs.begin(), variant.inputs.end(), input) == variant.inputs.end())
      variant.inputs.push_back(input);
  }
  variant.name += ".within";
  variant.seconds += maker.seconds;
  return variant;
}

}  // namespace

void add_random_variants(uint64_t seed, Problem& problem) {
  std::mt19937_64 random(seed);
  for (const OpId id : problem.ops.ids()) {
    const Op& op = problem.ops[id];
    const uint64_t pick = random();
    if (pick % 2 == 0) continue;
    std::optional<Op> within = with_maker_within(problem, op, pick / 2);
    if (within) {
      within->variant_of = id;
      problem.variants.push_back(*std::move(within));
    }
    if (op.scratch_bytes == 0) continue;
    Op lean = op;
    lean.variant_of = id;
    lean.name += ".lean";
    lean.seconds += static_cast<double>(pick % 3);
    lean.scratch_bytes = 0;
    problem.variants.push_back(std::move(lean));
  }
}

Problem evaluation_chain(int32_t n) {
  Maker maker;
  StorageId y = maker.make("input", Phase::forward, 0, {}, kUnit);
  for (int32_t i = 1; i < n; ++i) y = maker.make("f", Phase::forward, 1, {y}, kUnit);
  maker.problem.keep = {y};
  return std::move(maker.problem);
}

Problem update_only(int32_t n) {
  Maker maker;
  for (int32_t i = 0; i < n; ++i) {
    const StorageId w = maker.storage("w", 640, true);
    const StorageId g = maker.storage("g", 640, true);
    maker.op("adamw", Phase::update, 1, {w, g}, {w}, 128);
  }
  return std::move(maker.problem);
}

Problem stale_weight_hazard() {
  Maker maker;
  const StorageId w = maker.storage("w", 64, true);
  const StorageId x = maker.make("input", Phase::forward, 0, {}, kUnit);
  maker.problem.ops.back().may_recompute = false;
  const StorageId a = maker.make("f1", Phase::forward, 1, {x}, kUnit);
  const StorageId big = maker.make("f2", Phase::forward, 1, {a, w}, 10 * kUnit);
  const StorageId c = maker.make("f3", Phase::forward, 1, {big}, kUnit);
  const StorageId wide = maker.make("f4", Phase::forward, 1, {c}, 10 * kUnit);
  const StorageId d = maker.make("f5", Phase::forward, 1, {wide}, kUnit);
  const StorageId dd = maker.make("loss_grad", Phase::backward, 1, {d}, kUnit);
  const StorageId dw = maker.make("dw", Phase::backward, 1, {dd}, kUnit);
  maker.op("update", Phase::update, 1, {w, dw}, {w});
  const StorageId dc = maker.make("b4", Phase::backward, 1, {dd, wide}, 10 * kUnit);
  // Reads f2's output after the update of w: f2 cannot run again here.
  const StorageId db = maker.make("b2", Phase::backward, 1, {dc, big}, kUnit);
  maker.problem.keep = {db};
  return std::move(maker.problem);
}

}  // namespace snug::plan::testing
