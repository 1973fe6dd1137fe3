// SPDX-License-Identifier: Apache-2.0
// One node of the graph with operands of its own, ready to run on a backend: what the benchmarks of
// kernels time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/mapped_block.h"
#include "graph/op_def.h"

namespace snug {

struct BenchSpec {
  std::string name;
  std::string op;
  InputTypes inputs;  // i32 inputs hold ids below `ids_below`
  Attrs attrs = {};
  int64_t ids_below = 1;
};

/// Fills with numbers in (0.001, 1.001) that depend on nothing but their place.
void fill_f32(std::span<float> values);

class BoundNode {
 public:
  BoundNode(const Backend& backend, const BenchSpec& bench);
  [[nodiscard]] ErrorCode run() const;
  [[nodiscard]] std::byte* output(size_t index) const { return outputs_[index]; }

  NodeSpec spec;
  KernelChoice choice;
  Cost cost;

 private:
  std::byte* allocate(int64_t bytes);
  std::byte* filled(const BenchSpec& bench, size_t input);

  std::unique_ptr<Kernel> kernel_;
  std::deque<MappedBlock> memory_;  // in large pages, as a session's
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::byte* scratch_ = nullptr;
};

}  // namespace snug
