// SPDX-License-Identifier: Apache-2.0
// A plan bound to a block: an ordered list of kernels whose operands have their addresses, and the
// places of its outputs. run() allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/index_vector.h"
#include "plan/problem/plan.h"
#include "runtime/canary.h"
#include "runtime/lowered.h"
#include "runtime/resident_layout.h"
#include "snug/error.h"

namespace snug::runtime {

/// Kernels by spec; equal nodes of all programs share one.
class KernelCache {
 public:
  explicit KernelCache(const Backend& backend) : backend_(backend) {}
  /// The kernel of one such node, or of `count` (Backend::create_fused).
  [[nodiscard]] const Kernel& get(const NodeSpec& spec, int32_t count = 1);
  [[nodiscard]] const Kernel& get(std::span<const RowNode> program);
  [[nodiscard]] size_t size() const { return kernels_.size(); }
  [[nodiscard]] const Backend& backend() const { return backend_; }

 private:
  const Backend& backend_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

/// What one run of a program did, step by step.
struct TraceRow {
  plan::OpId op;
  int64_t live_bytes = 0;  // arena bytes in use during the step
  double seconds = 0;
};
struct Trace {
  IndexVector<TraceRow> rows;
};

/// A kernel failed behind one that moves a weight or its states, which stay moved unless they were
/// told to skip.
class FailedBehindUpdate : public Error {
 public:
  explicit FailedBehindUpdate(const Error& failure) : Error(failure) {}
};

class Executable {
 public:
  /// `block` of `queue` holds the resident layout at its begin and the arena at `arena_begin`. All
  /// must outlive the executable.
  Executable(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
             const ResidentLayout& residents, KernelCache& kernels, Queue& queue,
             MemoryBlock& block, int64_t arena_begin);

  /// Runs every step; throws Error{numeric|bad_data|...} that names the failing node. The first run
  /// also watches the bytes around everything that a kernel may write, and throws Error{internal}
  /// where one of them changed.
  void run();
  /// The same, and fills `trace` (its capacity is reserved by the first run).
  void run_traced(Trace& trace);
  /// Fills every arena byte that is dead before a step with 0xFF (NaN) before running it: a read of
  /// a dead byte shows, and a write to one is Error{internal}, as is one beside an operand.
  void run_poisoned();
  /// From now on every op that a caller's program brought along runs twice on the same operands;
  /// where that gives other bytes, or leaves some unwritten, it is Error{bad_config}: a plan may
  /// run it again, so results would follow the budget. Takes memory of its own.
  void set_repeating(bool is_on) { repeats_ = is_on; }

  /// Where a graph output lies in the block; its bytes stay until the next run.
  [[nodiscard]] ByteRange output(const std::string& name) const;
  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// End of the scratch that its kernels were given, as a place in the arena; 0 before the first
  /// run. A kernel may leave a part of its scratch unwritten.
  [[nodiscard]] int64_t given_scratch_end() const { return has_run_ ? scratch_end_ : 0; }

 private:
  struct Bound {
    const Kernel* kernel = nullptr;
    Launch launch = {};
    NodeId node;                   // the first
    int32_t step = 0;              // likewise
    int32_t last_of_program = -1;  // the last step of a row program; -1: it is none
    int32_t steps = 1;             // that run in it, if more than one with a node each
    size_t first_written = 0;      // of written_
    bool is_callers = false;       // an op that a program brought along
    bool is_update = false;        // moves a weight or its states
  };
  void bind(const Graph& graph, const Lowered& lowered, const plan::Plan& plan,
            const ResidentLayout& residents, KernelCache& kernels);
  void place_live_ranges(const plan::Plan& plan);
  void run_all();
  void run_and_wait(const Bound& bound);
  void run_again(const Bound& bound);
  void run_watched(size_t kernel);
  [[noreturn]] void fail(const Bound& bound, ErrorCode code) const;
  [[noreturn]] void fail(const Bound& bound, ErrorCode code, const std::string& what,
                         const std::string& hint) const;

  Queue& queue_;
  MemoryBlock& block_;
  int64_t arena_begin_;
  int64_t arena_bytes_;
  int64_t scratch_end_ = 0;
  bool has_run_ = false;
  bool repeats_ = false;
  Fence fence_;
  std::vector<ByteRange> written_;        // outputs and scratch of all kernels, to the byte
  std::vector<Bound> kernels_;            // in the order of steps; an op may have several
  std::vector<const std::byte*> inputs_;  // addresses, of all kernels
  std::vector<std::byte*> outputs_;
  std::map<NodeId, std::string> node_names_;
  /// Ids that a node reads as they were fed, which are what may be out of range.
  struct FedIds {
    std::string input;
    std::string beside;  // the type of the table, or of the logits
    ByteRange range;
  };
  [[nodiscard]] std::string said_of(const std::vector<FedIds>& fed) const;
  std::map<NodeId, std::vector<FedIds>> fed_ids_;
  std::vector<plan::OpId> ops_;      // by step
  IndexVector<int64_t> live_bytes_;  // by step
  struct PlacedRange {
    plan::LiveRange range;
    int64_t place = 0;
  };
  std::vector<PlacedRange> placed_;  // by first step: what poisoning leaves alone
  std::map<std::string, ByteRange> output_ranges_;
};

}  // namespace snug::runtime
