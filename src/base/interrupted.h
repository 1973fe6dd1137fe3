// SPDX-License-Identifier: Apache-2.0
// System calls that a signal may end before they did anything.
#pragma once

#include <cerrno>

namespace snug {

/// Repeats a call that returns a negative number, with EINTR in errno, where it was interrupted.
template <class Call>
auto while_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace snug
