// SPDX-License-Identifier: Apache-2.0
// How the draws of a network (dropout, the keys of ops of your own) are told apart.
#pragma once

#include <cstdint>

namespace snug {

/// operands: by a walk from the loss through the operands of every op, first operands first, so
/// that the same network draws the same whichever compiler built it (the order in which
/// `f(x) + g(x)` calls f and g is the compiler's). What no row is behind draws once for all rows,
/// and each key of NetworkBuilder::random_key() is another.
/// building: as they were made, by row whatever is behind, with one key for all: sessions that were
/// saved before there was a choice.
enum class DrawNumbering : uint8_t { operands, building };

}  // namespace snug
