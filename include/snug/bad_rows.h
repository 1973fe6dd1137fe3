// SPDX-License-Identifier: Apache-2.0
// What to do with a row of data that cannot be used.
#pragma once

#include <cstdint>

namespace snug {

/// stop: the row's error ends the run; skip: the row is counted and left out.
enum class BadRows : uint8_t { stop, skip };

}  // namespace snug
