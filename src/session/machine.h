// SPDX-License-Identifier: Apache-2.0
// The backend that work is done on, made by name in one place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace snug::train {

struct Machine {
  int threads = 1;
  std::unique_ptr<Backend> backend;
};

/// `threads` 0: every core this process may use. Measures the machine's speed on first use and
/// keeps it in a file of `profile_folder`; empty: $XDG_CACHE_HOME/snug, else ~/.cache/snug. Throws
/// Error{bad_config} for a backend that does not exist.
[[nodiscard]] Machine open_machine(const std::string& backend, int64_t threads,
                                   const std::string& profile_folder);

}  // namespace snug::train
