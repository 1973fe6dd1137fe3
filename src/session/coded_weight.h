// SPDX-License-Identifier: Apache-2.0
// The numbers of a weight that is stored in 24, 16 or 8 bits (compile/weight_storage.h), row by
// row.
#pragma once

#include <span>
#include <string>

#include "session/engine.h"

namespace snug::session {

/// Whether a session's tensor is stored so.
[[nodiscard]] bool is_coded_weight(const Engine& engine, const std::string& name);
/// Whether it is the scales of such a weight.
[[nodiscard]] bool is_scales(const Engine& engine, const std::string& name);

/// Whole rows from this one.
void write_coded_rows(Engine& engine, const std::string& name, int64_t first_row,
                      std::span<const float> values);
void read_coded_rows(const Engine& engine, const std::string& name, int64_t first_row,
                     std::span<float> values);

}  // namespace snug::session
