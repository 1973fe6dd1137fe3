// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/check.h"
#include "base/float_mode.h"
#include "base/mapped_block.h"
#include "base/stop.h"
#include "graph/op_def.h"

namespace snug {
namespace {

constexpr unsigned char kPoison = 0xFF;     // NaN, or an id out of range
constexpr unsigned char kUnwritten = 0x5A;  // of an output before an op runs again

/// The gaps of [0, end) that the sorted, possibly touching intervals leave free.
std::vector<std::pair<int64_t, int64_t>> gaps(std::vector<std::pair<int64_t, int64_t>> used,
                                              int64_t end) {
  std::sort(used.begin(), used.end());
  std::vector<std::pair<int64_t, int64_t>> free;
  int64_t at = 0;
  for (const auto& [first, last] : used) {
    if (first > at) free.emplace_back(at, first);
    at = std::max(at, last);
  }
  if (at < end) free.emplace_back(at, end);
  return free;
}

// " of 'label'": the fed ids that a node reads, which are what may be out of range.
std::string fed_ids(const Graph& graph, NodeId node) {
  std::string names;
  for (const ValueId input : graph.node(node).inputs) {
    if (input == kNone || graph.type(input).dtype != DType::i32) continue;
    const Value& stored = graph.value(storage_of(graph, input));
    if (stored.kind != ValueKind::input) continue;
    names += (names.empty() ? " of '" : ", '") + stored.name + "'";
  }
  return names;
}

}  // namespace

const Kernel& KernelCache::get(const NodeSpec& spec) {
  std::string key = kernel_key_of(spec);
  auto found = kernels_.find(key);
  if (found == kernels_.end())
    found = kernels_.emplace(std::move(key), backend_.create(spec)).first;
  return *found->second;
}

Executable::Executable(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                       const ResidentLayout& residents, KernelCache& kernels, const Memory& memory,
                       int64_t arena_offset)
    : memory_(memory.data()),
      arena_(memory.data() + arena_offset),
      arena_bytes_(plan.arena_bytes),
      threads_without_subnormals_(kernels.backend().threads_without_subnormals()),
      fence_({memory.data(), memory.data() + memory.bytes()}) {
  SNUG_CHECK(arena_offset + plan.arena_bytes <= memory.bytes(),
             "the arena does not fit the memory");
  for (const plan::Step& step : plan.steps) {
    stop_point();
    for (const NodeId node : lowered.nodes_of_op[step.op]) {
      kernels_.push_back({.kernel = &kernels.get(spec_of(graph, node)),
                          .launch = {},
                          .node = node,
                          .step = static_cast<int32_t>(ops_.size()),
                          .first_written = 0,
                          .is_callers = graph.node(node).op->callers_kernel != nullptr});
      node_names_.try_emplace(node, describe(graph, node) + fed_ids(graph, node));
    }
    ops_.push_back(step.op);
  }
  bind(graph, lowered, plan, residents, kernels.backend());
}

void Executable::bind(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                      const ResidentLayout& residents, const Backend& backend) {
  const auto resident_of = [&](plan::StorageId storage) {
    return memory_ + residents.at(lowered.problem.storages[storage].name).offset;
  };
  size_t input_count = 0;
  size_t output_count = 0;
  for (const Bound& bound : kernels_) {
    input_count += graph.node(bound.node).inputs.size();
    output_count += graph.node(bound.node).outputs.size();
  }
  input_pointers_.reserve(input_count);  // spans point into these: they must not move
  output_pointers_.reserve(output_count);
  IdVector<int64_t> last_offset(lowered.problem.storages.size(), plan::kResidentOffset);
  for (Bound& bound : kernels_) {
    const plan::Step& step = plan.steps[bound.step];
    const plan::Op& op = lowered.problem.ops[step.op];
    const Node& node = graph.node(bound.node);
    const auto locate = [&](ValueId value) -> std::byte* {
      const plan::StorageId storage = lowered.storage_of_value[value];
      const plan::Storage& info = lowered.problem.storages[storage];
      if (info.resident) return resident_of(storage);
      // What an earlier node of the op made is among the outputs.
      const auto find_in = [&](const std::vector<plan::StorageId>& list) {
        return static_cast<size_t>(std::find(list.begin(), list.end(), storage) - list.begin());
      };
      const size_t input = find_in(op.inputs);
      const size_t output = find_in(op.outputs);
      SNUG_CHECK(input < op.inputs.size() || output < op.outputs.size(), info.name);
      const int64_t offset =
          input < op.inputs.size() ? step.input_offsets[input] : step.output_offsets[output];
      last_offset[storage] = offset;
      return arena_ + offset;
    };
    const size_t first_input = input_pointers_.size();
    for (ValueId id : node.inputs) {
      input_pointers_.push_back(id == kNone ? nullptr : locate(id));
    }
    const size_t first_output = output_pointers_.size();
    bound.first_written = written_.size();
    for (ValueId id : node.outputs) {
      std::byte* output = locate(id);
      output_pointers_.push_back(output);
      written_.emplace_back(output, output + backend.storage_bytes(graph.type(id)));
    }
    bound.launch.inputs = {input_pointers_.data() + first_input, node.inputs.size()};
    bound.launch.outputs = {output_pointers_.data() + first_output, node.outputs.size()};
    if (op.scratch_bytes > 0) {
      bound.launch.scratch = arena_ + step.scratch_offset;
      written_.emplace_back(bound.launch.scratch, bound.launch.scratch + op.scratch_bytes);
      scratch_end_ = std::max(scratch_end_, step.scratch_offset + op.scratch_bytes);
    }
  }
  live_bytes_.assign(plan.steps.size() + 1, 0);
  for (size_t r = 0; r < plan.live_ranges.size(); ++r) {
    const plan::LiveRange& range = plan.live_ranges[r];
    live_bytes_[range.first] += range.bytes;
    live_bytes_[range.last + 1] -= range.bytes;
    placed_.push_back({range, plan.offsets[r]});
  }
  std::partial_sum(live_bytes_.begin(), live_bytes_.end(), live_bytes_.begin());
  std::stable_sort(placed_.begin(), placed_.end(), [](const PlacedRange& a, const PlacedRange& b) {
    return a.range.first < b.range.first;
  });
  for (ValueId id : graph.outputs) {
    const plan::StorageId storage = lowered.storage_of_value[id];
    named_[graph.value(id).name] = lowered.problem.storages[storage].resident
                                       ? resident_of(storage)
                                       : arena_ + last_offset[storage];
  }
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::computed)
      named_[value.name] = memory_ + residents.at(value.name).offset;
  }
}

TeamFloatMode Executable::float_mode() const {
  const int threads = threads_without_subnormals_;
  return {std::max(threads, 1), threads > 0 ? Subnormals::zero : Subnormals::kept};
}

void Executable::run(const Bound& bound) {
  stop_point();  // an update of a run that trains is under no scope: it ends whole
  const ErrorCode code = bound.kernel->run(bound.launch);
  if (code != ErrorCode::ok) {
    const bool is_index = code == ErrorCode::bad_data;
    throw Error(code, node_names_.at(bound.node),
                "the kernel failed: " + (is_index ? std::string("an id or label is out of range")
                                                  : std::string(to_string(code))),
                is_index ? "ids are below the rows of their table, labels below the classes (or "
                           "-100 where they are an input); none is below 0"
                         : "");
  }
  if (repeats_ && bound.is_callers) run_again(bound);
}

// Outputs are other bytes before the second run than they were before the first, so that one which
// is not written shows, too.
void Executable::run_again(const Bound& bound) {
  std::vector<std::span<std::byte>> outputs;
  std::vector<std::vector<std::byte>> first;
  for (size_t i = 0; i < bound.launch.outputs.size(); ++i) {
    const auto& [begin, end] = written_[bound.first_written + i];
    outputs.emplace_back(bound.launch.outputs[i], static_cast<size_t>(end - begin));
    first.emplace_back(begin, end);
    fill_bytes(outputs.back(), std::byte{kUnwritten});
  }
  const ErrorCode code = bound.kernel->run(bound.launch);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (code == ErrorCode::ok && std::ranges::equal(outputs[i], first[i])) continue;
    throw Error(ErrorCode::bad_config, node_names_.at(bound.node),
                "the op gives other bytes when it runs again on the same operands, or does not "
                "write all of its output " +
                    std::to_string(i),
                "let its kernel depend on its operands and attributes alone (no counter, clock or "
                "random numbers but those of random_key()): a plan may run it again");
  }
}

void Executable::run_watched(size_t kernel) {
  const Bound& bound = kernels_[kernel];
  const size_t end =
      kernel + 1 < kernels_.size() ? kernels_[kernel + 1].first_written : written_.size();
  const auto ranges = std::span(written_).subspan(bound.first_written, end - bound.first_written);
  fence_.put_up(ranges);
  run(bound);
  if (fence_.first_changed() != nullptr) {
    throw Error(ErrorCode::internal, node_names_.at(bound.node),
                "the kernel wrote beside its outputs", "please report this with the command");
  }
}

void Executable::run() {
  const TeamFloatMode mode = float_mode();
  if (has_run_) {
    for (const Bound& bound : kernels_) run(bound);
    return;
  }
  for (size_t i = 0; i < kernels_.size(); ++i) run_watched(i);
  has_run_ = true;
}

void Executable::run_traced(Trace& trace) {
  const TeamFloatMode mode = float_mode();
  trace.rows.resize(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    trace.rows[i] = {.op = ops_[i], .live_bytes = live_bytes_[i], .seconds = 0};
  for (const Bound& bound : kernels_) {
    const auto start = std::chrono::steady_clock::now();
    run(bound);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    trace.rows[bound.step].seconds += taken.count();
  }
}

void Executable::run_poisoned() {
  const TeamFloatMode mode = float_mode();
  std::vector<const PlacedRange*> live;
  std::vector<std::pair<int64_t, int64_t>> dead;
  size_t next = 0;
  int32_t poisoned = -1;  // the last step whose dead bytes were filled
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Bound& bound = kernels_[i];
    if (bound.step != poisoned) {
      poisoned = bound.step;
      std::erase_if(live, [&](const PlacedRange* placed) { return placed->range.last < poisoned; });
      for (; next < placed_.size() && placed_[next].range.first <= poisoned; ++next)
        live.push_back(&placed_[next]);
      std::vector<std::pair<int64_t, int64_t>> used;
      for (const PlacedRange* placed : live)
        used.emplace_back(placed->offset, placed->offset + placed->range.bytes);
      dead = gaps(std::move(used), arena_bytes_);
      for (const auto& [begin, end] : dead)
        fill_bytes({arena_ + begin, arena_ + end}, std::byte{kPoison});
    }
    run_watched(i);
    for (const auto& [begin, end] : dead) {
      if (!first_changed({arena_ + begin, arena_ + end}, std::byte{kPoison})) continue;
      throw Error(ErrorCode::internal, node_names_.at(bound.node),
                  "the kernel wrote to bytes of the arena that belong to nothing",
                  "please report this with the command");
    }
  }
}

std::byte* Executable::data(const std::string& name) const {
  const auto found = named_.find(name);
  SNUG_CHECK(found != named_.end(), "no value named " + name);
  return found->second;
}

}  // namespace snug
