// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/stop.h"
#include "graph/op_def.h"
#include "graph/storage.h"
#include "graph/text.h"
#include "runtime/row_nodes.h"

namespace snug::runtime {
namespace {

constexpr std::byte kPoison{0xFF};     // NaN, or an id out of range
constexpr std::byte kUnwritten{0x5A};  // of an output before an op runs again

/// What the intervals, which may touch, leave free of a range.
std::vector<ByteRange> gaps(std::vector<ByteRange> used, ByteRange range) {
  std::ranges::sort(used, {}, &ByteRange::begin);
  std::vector<ByteRange> free;
  int64_t at = range.begin;
  for (const ByteRange& each : used) {
    if (each.begin > at) free.push_back({at, each.begin});
    at = std::max(at, each.end);
  }
  if (at < range.end) free.push_back({at, range.end});
  return free;
}

// The fed values whose elements are ids to a node.
std::vector<ValueId> fed_ids(const Graph& graph, NodeId node) {
  std::vector<ValueId> found;
  for (const ValueId input : graph.node(node).inputs) {
    if (input == kNone || graph.type(input).dtype != DType::i32) continue;
    const ValueId stored = storage_of(graph, input);
    if (graph.value(stored).kind == ValueKind::input) found.push_back(stored);
  }
  return found;
}

bool moves_weights(const Graph& graph, const Node& node) {
  if (node.phase != Phase::update) return false;
  return std::ranges::any_of(node.outputs, [&](ValueId output) {
    const ValueKind kind = graph.value(storage_of(graph, output)).kind;
    return kind == ValueKind::parameter || kind == ValueKind::state;
  });
}

/// Where values lie in the block while the steps of a plan run, one after the other.
class Places {
 public:
  Places(const Lowered& lowered, const ResidentLayout& residents, int64_t arena_begin)
      : lowered_(lowered),
        residents_(residents),
        arena_begin_(arena_begin),
        last_(lowered.problem.storages.size(), plan::kResidentOffset) {}

  [[nodiscard]] int64_t during(const plan::Step& step, ValueId value) {
    const plan::StorageId storage = lowered_.storage_of_value[value];
    const plan::Storage& info = lowered_.problem.storages[storage];
    if (info.resident) return residents_.at(info.name).offset;
    const plan::Op& op = lowered_.problem.ops[step.op];
    // What an earlier node of the op made is among the outputs.
    const auto find_in = [&](const std::vector<plan::StorageId>& list) {
      return static_cast<size_t>(std::find(list.begin(), list.end(), storage) - list.begin());
    };
    const size_t input = find_in(op.inputs);
    const size_t output = find_in(op.outputs);
    SNUG_CHECK(input < op.inputs.size() || output < op.outputs.size(), info.name);
    const int64_t offset =
        input < op.inputs.size() ? step.input_offsets[input] : step.output_offsets[output];
    return last_[storage] = arena_begin_ + offset;
  }

  /// Where it lies behind the last step that had it.
  [[nodiscard]] int64_t last(ValueId value) const {
    const plan::StorageId storage = lowered_.storage_of_value[value];
    const plan::Storage& info = lowered_.problem.storages[storage];
    return info.resident ? residents_.at(info.name).offset : last_[storage];
  }

 private:
  const Lowered& lowered_;
  const ResidentLayout& residents_;
  int64_t arena_begin_;
  IdVector<plan::StorageId, int64_t> last_;
};

/// Those of one run of a program.
class Launches {
 public:
  explicit Launches(Queue& queue) : queue_(queue) { queue_.begin(); }
  ~Launches() { queue_.end(); }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

 private:
  Queue& queue_;
};

}  // namespace

const Kernel& KernelCache::get(const NodeSpec& spec, int32_t count) {
  std::string key = kernel_key_of(spec);
  if (count > 1) key += " x " + std::to_string(count);
  auto found = kernels_.find(key);
  if (found == kernels_.end()) {
    auto kernel = count > 1 ? backend_.create_fused(spec, count) : backend_.create(spec);
    found = kernels_.emplace(std::move(key), std::move(kernel)).first;
  }
  return *found->second;
}

const Kernel& KernelCache::get(std::span<const RowNode> program) {
  std::string key;
  for (const RowNode& node : program) {
    key += kernel_key_of(node.spec) + " |";
    for (const auto* operands : {&node.inputs, &node.outputs}) {
      for (const RowOperand& each : *operands)
        key +=
            " " + std::to_string(static_cast<int>(each.place)) + ":" + std::to_string(each.index);
    }
    key += "\n";
  }
  auto found = kernels_.find(key);
  if (found == kernels_.end())
    found = kernels_.emplace(std::move(key), backend_.create_row_program(program)).first;
  return *found->second;
}

Executable::Executable(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                       const ResidentLayout& residents, KernelCache& kernels, Queue& queue,
                       MemoryBlock& block, int64_t arena_begin)
    : queue_(queue),
      block_(block),
      arena_begin_(arena_begin),
      arena_bytes_(plan.arena_bytes),
      fence_(block) {
  SNUG_CHECK(arena_begin + plan.arena_bytes <= block.bytes(), "the arena does not fit the memory");
  const auto steps = static_cast<int32_t>(plan.steps.size());
  for (int32_t at = 0; at < steps; ++at) {
    stop_point();
    const plan::Step& step = plan.steps[at];
    ops_.push_back(step.op);
    if (step.fused == plan::Fused::sums) ++kernels_.back().steps;
    if (step.fused != plan::Fused::no) continue;
    int32_t last = at;
    while (last + 1 < steps && plan.steps[last + 1].fused == plan::Fused::rows) ++last;
    const std::vector<NodeId>& nodes = lowered.nodes_of_op[step.op];
    const int32_t by_rows = lowered.nodes_by_rows[step.op];
    const bool has_program =
        last > at || is_program_by_itself(lowered.problem.ops[step.op], by_rows);
    const size_t apart = nodes.size() - (has_program ? static_cast<size_t>(by_rows) : 0);
    for (size_t i = 0; i < nodes.size() && i <= apart; ++i) {
      const NodeId node = nodes[i];
      const bool is_callers = graph.node(node).op->callers_kernel != nullptr;
      kernels_.push_back({.kernel = nullptr,
                          .launch = {},
                          .node = node,
                          .step = at,
                          .last_of_program = i == apart ? last : -1,
                          .steps = 1,
                          .first_written = 0,
                          .is_callers = is_callers,
                          .is_update = moves_weights(graph, graph.node(node))});
      std::string name = describe(graph, node);
      for (const ValueId id : fed_ids(graph, node)) {
        const Value& value = graph.value(id);
        const int64_t begin = residents.at(value.name).offset;
        std::vector<FedIds>& fed = fed_ids_[node];
        name += (fed.empty() ? " of '" : ", '") + value.name + "'";
        fed.push_back({value.name,
                       to_string(graph.type(graph.node(node).inputs[0])),
                       {begin, begin + byte_count(value.type)}});
      }
      node_names_.try_emplace(node, std::move(name));
    }
  }
  bind(graph, lowered, plan, residents, kernels);
  place_live_ranges(plan);
}

void Executable::bind(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
                      const ResidentLayout& residents, KernelCache& kernels) {
  const Backend& backend = kernels.backend();
  const auto row_form = [&](const NodeSpec& spec) { return backend.select(spec).row_form; };
  size_t input_count = 0;
  size_t output_count = 0;
  std::map<int32_t, RowNodes> programs;  // by step
  // Those of one kernel have as many operands each.
  for (Bound& bound : kernels_) {
    stop_point();
    if (bound.last_of_program >= 0) {
      RowNodes program =
          row_nodes(graph, lowered, plan, bound.step, bound.last_of_program, row_form);
      bound.kernel = &kernels.get(program.nodes);
      input_count += program.inputs.size();
      output_count += program.outputs.size();
      programs.emplace(bound.step, std::move(program));
      continue;
    }
    bound.kernel = &kernels.get(spec_of(graph, bound.node), bound.steps);
    input_count += bound.steps * graph.node(bound.node).inputs.size();
    output_count += bound.steps * graph.node(bound.node).outputs.size();
  }
  inputs_.reserve(input_count);  // spans point into these: they must not move
  outputs_.reserve(output_count);
  Places places(lowered, residents, arena_begin_);
  for (Bound& bound : kernels_) {
    const size_t first_input = inputs_.size();
    const size_t first_output = outputs_.size();
    bound.first_written = written_.size();
    const auto bind_output = [&](int32_t at, ValueId id, bool is_watched) {
      const int64_t place = places.during(plan.steps[at], id);
      outputs_.push_back(block_.address(place));
      if (is_watched) written_.push_back({place, place + backend.storage_bytes(graph.type(id))});
    };
    const auto program = programs.find(bound.step);
    const bool is_program = bound.last_of_program >= 0;
    if (is_program) {
      const RowNodes& rows = program->second;
      for (size_t i = 0; i < rows.inputs.size(); ++i) {
        const plan::Step& step = plan.steps[rows.input_steps[i]];
        inputs_.push_back(block_.address(places.during(step, rows.inputs[i])));
      }
      for (size_t i = 0; i < rows.outputs.size(); ++i)
        bind_output(rows.output_steps[i], rows.outputs[i], true);
    }
    for (int32_t at = bound.step; !is_program && at < bound.step + bound.steps; ++at) {
      const plan::Step& step = plan.steps[at];
      const NodeId id_of_node = bound.steps > 1 ? lowered.nodes_of_op[step.op].front() : bound.node;
      const Node& node = graph.node(id_of_node);
      for (ValueId id : node.inputs)
        inputs_.push_back(id == kNone ? nullptr : block_.address(places.during(step, id)));
      for (ValueId id : node.outputs) bind_output(at, id, at == bound.step);
    }
    bound.launch.inputs = {inputs_.data() + first_input, inputs_.size() - first_input};
    bound.launch.outputs = {outputs_.data() + first_output, outputs_.size() - first_output};
    const plan::Step& step = plan.steps[bound.step];
    const plan::Op& op = lowered.problem.ops[step.op];
    const int64_t scratch_bytes = is_program        ? program->second.scratch_bytes
                                  : bound.steps > 1 ? op.fusion.scratch_bytes
                                                    : op.scratch_bytes;
    if (scratch_bytes == 0) continue;
    const int64_t scratch = arena_begin_ + step.scratch_offset;
    bound.launch.scratch = block_.address(scratch);
    written_.push_back({scratch, scratch + scratch_bytes});
    scratch_end_ = std::max(scratch_end_, step.scratch_offset + scratch_bytes);
  }
  for (ValueId id : graph.outputs) {
    const int64_t place = places.last(id);
    output_ranges_[graph.value(id).name] = {place, place + backend.storage_bytes(graph.type(id))};
  }
}

void Executable::place_live_ranges(const plan::Plan& plan) {
  live_bytes_.assign(plan.steps.size() + 1, 0);
  for (size_t r = 0; r < plan.live_ranges.size(); ++r) {
    const plan::LiveRange& range = plan.live_ranges[r];
    live_bytes_[range.first] += range.bytes;
    live_bytes_[range.last + 1] -= range.bytes;
    placed_.push_back({range, arena_begin_ + plan.offsets[r]});
  }
  std::partial_sum(live_bytes_.begin(), live_bytes_.end(), live_bytes_.begin());
  std::stable_sort(placed_.begin(), placed_.end(), [](const PlacedRange& a, const PlacedRange& b) {
    return a.range.first < b.range.first;
  });
}

void Executable::fail(const Bound& bound, ErrorCode code, const std::string& what,
                      const std::string& hint) const {
  const Error failure(code, node_names_.at(bound.node), what, hint);
  const auto is_update = [](const Bound& before) { return before.is_update; };
  if (std::any_of(kernels_.data(), &bound, is_update)) throw FailedBehindUpdate(failure);
  throw failure;
}

// ": 'label' holds 0 to 10, beside f32[8,10]".
std::string Executable::said_of(const std::vector<FedIds>& fed) const {
  std::string said;
  for (const auto& [input, beside, range] : fed) {
    int32_t least = std::numeric_limits<int32_t>::max();
    int32_t most = std::numeric_limits<int32_t>::min();
    for_parts(block_, range, sizeof(int32_t), [&](int64_t, std::span<const std::byte> bytes) {
      for (size_t at = 0; at < bytes.size(); at += sizeof(int32_t)) {
        int32_t id = 0;
        std::memcpy(&id, bytes.data() + at, sizeof(id));
        least = std::min(least, id);
        most = std::max(most, id);
      }
    });
    said += (said.empty() ? ": '" : ", '") + input + "' holds " + std::to_string(least) + " to " +
            std::to_string(most) + ", beside " + beside;
  }
  return said;
}

void Executable::fail(const Bound& bound, ErrorCode code) const {
  const bool is_index = code == ErrorCode::bad_data && !bound.is_callers;
  const auto fed = fed_ids_.find(bound.node);
  fail(bound, code,
       "the kernel failed: " +
           (is_index ? "an id or label is out of range" +
                           (fed == fed_ids_.end() ? std::string() : said_of(fed->second))
                     : std::string(to_string(code))),
       is_index ? "ids are below the rows of their table, labels below the classes (or "
                  "-100 where they are an input); none is below 0"
                : "");
}

// An update of a run that trains is under no scope that stops it: it ends whole.
void Executable::run_all() {
  for (const Bound& bound : kernels_) {
    stop_point();
    queue_.run(*bound.kernel, bound.launch);
  }
  const Queue::Outcome outcome = queue_.wait();
  if (outcome.code != ErrorCode::ok)
    fail(kernels_[static_cast<size_t>(outcome.launch)], outcome.code);
}

void Executable::run_and_wait(const Bound& bound) {
  stop_point();
  queue_.run(*bound.kernel, bound.launch);
  const Queue::Outcome outcome = queue_.wait();
  if (outcome.code != ErrorCode::ok) fail(bound, outcome.code);
  if (repeats_ && bound.is_callers) run_again(bound);
}

// Outputs are other bytes before the second run than they were before the first, so that one which
// is not written shows, too.
void Executable::run_again(const Bound& bound) {
  const auto outputs =
      std::span(written_).subspan(bound.first_written, bound.launch.outputs.size());
  std::vector<std::vector<std::byte>> first;
  for (const ByteRange& output : outputs) {
    block_.copy_out(output.begin, first.emplace_back(static_cast<size_t>(output.bytes())));
    block_.fill(output, kUnwritten);
  }
  queue_.run(*bound.kernel, bound.launch);
  const ErrorCode code = queue_.wait().code;
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (code == ErrorCode::ok && std::ranges::equal(bytes_of(block_, outputs[i], buffer), first[i]))
      continue;
    fail(bound, ErrorCode::bad_config,
         "the op gives other bytes when it runs again on the same operands, or does not "
         "write all of its output " +
             std::to_string(i),
         "let its kernel depend on its operands and attributes only (no counter, clock or "
         "random numbers but those of random_key()): a plan may run it again");
  }
}

void Executable::run_watched(size_t kernel) {
  const Bound& bound = kernels_[kernel];
  const size_t end =
      kernel + 1 < kernels_.size() ? kernels_[kernel + 1].first_written : written_.size();
  fence_.put_up(std::span(written_).subspan(bound.first_written, end - bound.first_written));
  run_and_wait(bound);
  if (fence_.first_changed()) {
    fail(bound, ErrorCode::internal, "the kernel wrote beside its outputs",
         "please report this with the command");
  }
}

void Executable::run() {
  const Launches launches(queue_);
  if (has_run_ && !repeats_) return run_all();
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (has_run_)
      run_and_wait(kernels_[i]);
    else
      run_watched(i);
  }
  has_run_ = true;
}

void Executable::run_traced(Trace& trace) {
  const Launches launches(queue_);
  trace.rows.resize(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    trace.rows[i] = {.op = ops_[i], .live_bytes = live_bytes_[i], .seconds = 0};
  for (const Bound& bound : kernels_) {
    const auto start = std::chrono::steady_clock::now();
    run_and_wait(bound);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    trace.rows[bound.step].seconds += taken.count();
  }
}

void Executable::run_poisoned() {
  const Launches launches(queue_);
  std::vector<const PlacedRange*> live;
  std::vector<ByteRange> dead;
  size_t next = 0;
  int32_t poisoned = -1;  // the last step whose dead bytes were filled
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Bound& bound = kernels_[i];
    if (bound.step != poisoned) {
      poisoned = bound.step;
      std::erase_if(live, [&](const PlacedRange* placed) { return placed->range.last < poisoned; });
      for (; next < placed_.size() && placed_[next].range.first <= poisoned; ++next)
        live.push_back(&placed_[next]);
      std::vector<ByteRange> used;
      for (const PlacedRange* placed : live)
        used.push_back({placed->place, placed->place + placed->range.bytes});
      dead = gaps(std::move(used), {arena_begin_, arena_begin_ + arena_bytes_});
      for (const ByteRange& range : dead) block_.fill(range, kPoison);
    }
    run_watched(i);
    for (const ByteRange& range : dead) {
      if (!first_changed(block_, range, kPoison)) continue;
      fail(bound, ErrorCode::internal,
           "the kernel wrote to bytes of the arena that belong to nothing",
           "please report this with the command");
    }
  }
}

ByteRange Executable::output(const std::string& name) const {
  const auto found = output_ranges_.find(name);
  SNUG_CHECK(found != output_ranges_.end(), "no output named " + name);
  return found->second;
}

}  // namespace snug::runtime
