// SPDX-License-Identifier: Apache-2.0
// What a backend offers to the planner and the runtime. select() answers before planning (scratch,
// cost, which kernel) and creates nothing; create() builds the kernel once; a queue has the memory
// and runs kernels on it (queue.h), which allocates nothing of ours. Nothing here assumes a CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/queue.h"
#include "base/row_form.h"
#include "graph/graph.h"

namespace snug {

/// A node without its graph: everything that decides its kernel. Equal specs share one kernel.
struct NodeSpec {
  const OpDef* op = nullptr;
  InputTypes inputs;
  std::vector<TensorType> outputs;
  Attrs attrs;
  bool operator==(const NodeSpec&) const = default;
};
[[nodiscard]] NodeSpec spec_of(const Graph& graph, NodeId node);
/// Text that is equal exactly for equal specs up to neutral attributes (a random ordinal, where a
/// slice begins): the key of cost tables and of equal blocks.
[[nodiscard]] std::string signature_of(const NodeSpec& spec);
/// Text that is equal exactly for equal specs: the key of kernels.
[[nodiscard]] std::string kernel_key_of(const NodeSpec& spec);

/// What is known of a node before planning.
struct KernelChoice {
  std::string kernel;         // "onednn:matmul_packed"
  int64_t scratch_bytes = 0;  // rounded up to the backend's alignment
  double seconds = 0;         // predicted time of one run in a step that the caches do not hold
  double saved_seconds = 0;   // of these, where the caches hold all of the step
  double far_seconds = 0;     // with all operands in memory; never less than `seconds`
  double uncertainty = 0;     // of each, as a share of it
  std::string rate = {};      // the name under which such runs are timed; empty: they are not
  /// Such nodes that follow one another, each of which goes on where the one before has ended (a
  /// sum in its place): how many one kernel runs, with the same bits, its scratch, and the time of
  /// each behind the first.
  struct Fused {
    int32_t most = 1;
    int64_t scratch_bytes = 0;
    double seconds = 0;
  } fused = {};
  RowwiseForm row_form =
      {};  // by the node's inputs and outputs; its scratch is in place of the above
};

/// Where an operand of a node of a row program is: among those of the launch, or in a buffer of the
/// program's own, of which only the piece in work is ever there.
struct RowOperand {
  enum class Place : uint8_t { absent, input, output, buffer };
  Place place = Place::absent;
  int32_t index = 0;
  bool operator==(const RowOperand&) const = default;
};
struct RowNode {
  NodeSpec spec;
  std::vector<RowOperand> inputs;
  std::vector<RowOperand> outputs;
};

/// How products of at most so many rows would rather have their weights (ops/packed_matmul): in
/// panels of so many columns, packed once for many products. Without columns no product gains.
struct WeightPanels {
  int64_t columns = 0;
  int64_t most_rows = 0;
};

/// The kernel of an op that a caller's program defines. It runs on the host and reads its operands
/// there, in the caller's element types; a backend without such memory refuses the op.
struct CallersKernel {
  std::function<int64_t(const NodeSpec&)> scratch_bytes;
  std::function<std::unique_ptr<Kernel>(const NodeSpec&)> create;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// Every storage and scratch buffer starts at a multiple of this and is rounded up to it.
  [[nodiscard]] virtual int64_t alignment() const = 0;
  /// Bytes of a dense tensor in this backend's own element sizes, not rounded.
  [[nodiscard]] virtual int64_t storage_bytes(const TensorType& type) const = 0;
  /// Predicted seconds that a byte costs which is kept for the backward part, beside the ops'.
  [[nodiscard]] virtual double kept_seconds_per_byte() const { return 0; }
  /// The share of so many bytes together that no cache holds. For the operands of an op it says how
  /// far on the way from `seconds` to `far_seconds` the op is; for a whole step, which share of
  /// what caches save is lost.
  [[nodiscard]] virtual double share_from_memory(double /*bytes*/) const { return 0; }
  [[nodiscard]] virtual WeightPanels weight_panels() const { return {}; }
  /// Products of at most so many rows may take more scratch than those of more rows.
  [[nodiscard]] virtual int64_t few_rows() const { return 0; }
  /// Throws Error{unsupported} with the reasons of every kernel that refused.
  [[nodiscard]] virtual KernelChoice select(const NodeSpec& spec) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Kernel> create(const NodeSpec& spec) const = 0;
  /// The kernel of `count` such nodes, from 2 to KernelChoice::fused: a launch has the inputs and
  /// outputs of all of them, one node behind the other.
  [[nodiscard]] virtual std::unique_ptr<Kernel> create_fused(const NodeSpec& spec,
                                                             int32_t count) const;
  /// The kernel of nodes with a row form, one after the other (base/row_form.h), with the bits that
  /// they have by themselves. Its scratch: the buffers of all its operands, in the order of their
  /// numbers, then the scratch of every node, each rounded up to the alignment.
  [[nodiscard]] virtual std::unique_ptr<Kernel> create_row_program(
      std::span<const RowNode> nodes) const;
  /// For one run; the backend outlives it.
  [[nodiscard]] virtual std::unique_ptr<Queue> create_queue() const = 0;
};

}  // namespace snug
