// SPDX-License-Identifier: Apache-2.0
// The floating-point environment that the library computes in, whatever its caller's is: a caller
// may let exceptions trap, round otherwise, or read the flags that its own work raised.
#pragma once

#include <cfenv>

namespace snug {

/// While it lives, the calling thread rounds to the nearest and no exception traps; then its
/// environment is the one that was, flags included.
class DefaultFloatMode {
 public:
  DefaultFloatMode() noexcept;
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
  ~DefaultFloatMode();

 private:
  std::fenv_t before_{};
};

/// Subnormal numbers are below 2^-126 in f32. Intel's processors take a hundred times as long for
/// them, and gradients that vanish consist of them. Other processors than x86 keep them either way.
enum class Subnormals { kept, zero };

/// The same in the calling thread and in the workers of its loops of at most `threads`; and
/// subnormal numbers count as zero, read and written, where that is asked for.
class TeamFloatMode {
 public:
  TeamFloatMode(int threads, Subnormals subnormals) noexcept;
  TeamFloatMode(const TeamFloatMode&) = delete;
  TeamFloatMode& operator=(const TeamFloatMode&) = delete;
  ~TeamFloatMode();

 private:
  int threads_;
  std::fenv_t before_{};  // the calling thread's
};

}  // namespace snug
