// SPDX-License-Identifier: Apache-2.0
// The reference backend: every op in double, slow and obvious. It is the definition of correct:
// kernels, gradients and goldens are compared with it. All element types are held as doubles
// (integers below 2^53 are exact); what is stored in 16 bits is rounded as it is stored.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "graph/op_def.h"

namespace snug {

struct RefTensor {
  TensorType type;
  double* data = nullptr;  // null for an absent optional input
  [[nodiscard]] int64_t size() const { return element_count(type); }
};
struct RefArgs {
  std::span<const RefTensor> inputs;  // read only
  std::span<const RefTensor>
      outputs;  // for must-overwrite ops these are separate memory: copy, then change
  const Attrs& attrs;
};
/// Throws Error for data that the op cannot accept (an id out of range).
using RefFn = void (*)(const RefArgs&);
struct RefKernelDef {
  const char* op;
  RefFn run;
};

/// What a tensor of this type holds of a number: rounded where it is stored in 16 bits.
[[nodiscard]] double as_stored(DType dtype, double x);

/// Every value of a graph by id. Feeds must cover every resident value that is read.
using RefValues = std::map<ValueId, std::vector<double>>;
/// Runs all nodes in order; must-overwrite outputs are new entries, their sources stay as fed.
[[nodiscard]] RefValues evaluate(const Graph& graph, const RefValues& feeds);

/// The same kernels behind the planned, bound interface: storages of 8 bytes an element.
[[nodiscard]] std::unique_ptr<Backend> make_reference_backend();

}  // namespace snug
