// SPDX-License-Identifier: Apache-2.0
// What every CPU kernel file uses: a kernel made from a lambda, typed access to the memory of a
// launch, and the usual answers of a kernel list. The lambda captures what it needs by value and
// allocates nothing.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "backend/cpu/cpu_backend.h"

namespace snug {

template <class Run>
class LambdaKernel final : public Kernel {
 public:
  explicit LambdaKernel(Run run) : run_(std::move(run)) {}
  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override { return run_(launch); }

 private:
  Run run_;
};

/// A kernel from `ErrorCode run(const Launch&)`.
template <class Run>
[[nodiscard]] std::unique_ptr<Kernel> make_kernel(Run run) {
  return std::make_unique<LambdaKernel<Run>>(std::move(run));
}

/// Null where an optional input is absent.
template <class T>
[[nodiscard]] const T* input(const Launch& launch, size_t index) {
  return reinterpret_cast<const T*>(launch.inputs[index]);
}
template <class T>
[[nodiscard]] T* output(const Launch& launch, size_t index = 0) {
  return reinterpret_cast<T*>(launch.outputs[index]);
}
template <class T>
[[nodiscard]] T* scratch_at(const Launch& launch, int64_t offset_bytes = 0) {
  return reinterpret_cast<T*>(launch.scratch + offset_bytes);
}

/// Brings the old contents of a must-overwrite output to its place where a caller gave it separate
/// memory; the runtime binds both to the same bytes.
inline void copy_overwritten(const Launch& launch, size_t output_index, size_t input_index,
                             int64_t bytes) {
  if (launch.outputs[output_index] == launch.inputs[input_index]) return;
  std::memcpy(launch.outputs[output_index], launch.inputs[input_index], static_cast<size_t>(bytes));
}

// Answers for CpuKernelDef.
[[nodiscard]] inline std::string always(const NodeSpec&, const CpuContext&) { return {}; }
[[nodiscard]] inline int64_t no_scratch(const NodeSpec&, const CpuContext&) { return 0; }

}  // namespace snug
