// SPDX-License-Identifier: Apache-2.0
// When a part of a program runs; the same four words for the nodes of a graph and for the ops of
// the planner's problems.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace snug {

/// prologue: once an update, before its micro-batches (casts and packings of weights); forward and
/// backward: once a micro-batch; update: once an update, after them.
enum class Phase : uint8_t { prologue, forward, backward, update };

[[nodiscard]] const char* to_string(Phase phase);
/// The phase of that name; none where there is none.
[[nodiscard]] std::optional<Phase> find_phase(std::string_view name);

}  // namespace snug
