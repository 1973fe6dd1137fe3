// SPDX-License-Identifier: Apache-2.0
// Whose heap this process has.
#pragma once

#include <string>

namespace snug {

/// The file that malloc comes from where it is not the C library (tcmalloc or jemalloc through
/// LD_PRELOAD, say); empty where it is. Sanitizers bring their own, and are not named.
[[nodiscard]] std::string foreign_allocator();

}  // namespace snug
