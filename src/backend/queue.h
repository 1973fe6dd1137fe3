// SPDX-License-Identifier: Apache-2.0
// Where a backend runs its kernels, one behind the other, and the blocks that they run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/block.h"
#include "snug/error.h"

namespace snug {

/// The operands of one run of a kernel, as addresses of a block. Null for an absent optional input.
/// Outputs never overlap inputs, except where the op must, or may and the planner said so: then the
/// output is the input.
struct Launch {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  /// For the queue of its own backend, from one thread at a time. Kernels of the host run to the
  /// end before this returns.
  [[nodiscard]] virtual ErrorCode run(const Launch& launch) const noexcept = 0;
};

/// Serves one thread at a time.
class Queue {
 public:
  /// How launches ended: the code of the first that failed, and how many came before it since
  /// begin() or the last wait().
  struct Outcome {
    ErrorCode code = ErrorCode::ok;
    int64_t launch = 0;
  };

  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;

  /// A block of zeros, or the caller's memory where that is not empty: page-aligned, of at least so
  /// many bytes. Throws Error{out_of_budget} where there is not as much, Error{bad_config} for
  /// memory that is not aligned, Error{unsupported} where a caller's cannot be used. The queue
  /// outlives it.
  [[nodiscard]] virtual std::unique_ptr<MemoryBlock> create_block(int64_t bytes,
                                                                  std::span<std::byte> callers) = 0;
  /// Before the launches of a program, and behind the last: end() waits. Between the two the
  /// calling thread may compute as the queue's kernels do (how it rounds, say).
  virtual void begin() noexcept = 0;
  virtual void end() noexcept = 0;
  /// Behind all that came before; may return before it has run, so operands and the spans that they
  /// stand in stay until wait(). Behind a launch that failed none runs until wait() has said so.
  virtual void run(const Kernel& kernel, const Launch& launch) noexcept = 0;
  /// Until everything has run.
  [[nodiscard]] virtual Outcome wait() noexcept = 0;
};

}  // namespace snug
