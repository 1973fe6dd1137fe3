// SPDX-License-Identifier: Apache-2.0
// The queue of backends that compute on the host: a kernel runs to its end where it is put in, and
// a block is memory of this process.
#pragma once

#include <optional>

#include "backend/queue.h"
#include "base/float_mode.h"

namespace snug {

class HostQueue final : public Queue {
 public:
  /// Kernels run on at most so many threads, all of which compute in this mode.
  HostQueue(int threads, Subnormals subnormals) : threads_(threads), subnormals_(subnormals) {}

  [[nodiscard]] std::unique_ptr<MemoryBlock> create_block(int64_t bytes,
                                                          std::span<std::byte> callers) override;
  void begin() noexcept override;
  void end() noexcept override { mode_.reset(); }
  void run(const Kernel& kernel, const Launch& launch) noexcept override;
  [[nodiscard]] Outcome wait() noexcept override;

 private:
  int threads_;
  Subnormals subnormals_;
  std::optional<TeamFloatMode> mode_;
  Outcome outcome_;
};

}  // namespace snug
