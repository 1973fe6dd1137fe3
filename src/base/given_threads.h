// SPDX-License-Identifier: Apache-2.0
// Threads that the system does not give: a limit of processes (ulimit -u, a container's pids.max).
#pragma once

#include <string>
#include <system_error>

#include "snug/error.h"

namespace snug {

/// Throws Error{unsupported} where the system does not give this process so many at once. OpenMP
/// starts its workers within a loop, where it can only end the process. True where it asked, which
/// it does for more than ever before.
bool check_given_threads(int threads);
/// The error of a thread that could not be started; `purpose`: what it was for.
[[nodiscard]] Error no_thread(const std::string& purpose, const std::system_error& error);

}  // namespace snug
