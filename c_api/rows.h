// SPDX-License-Identifier: Apache-2.0
// Rows and outputs as a caller in C gives and takes them.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "object.h"

namespace snug::c_api {

/// The rows of a request: its arrays, or its callback. Options: length, total_weights.
[[nodiscard]] std::unique_ptr<RowSource> rows_of(Request& request);

/// Nothing where there is no callback.
[[nodiscard]] OutputSink sink_of(const snug_data& data);

/// The one array of a request, as f32. Throws Error{bad_config} where it is none.
[[nodiscard]] std::span<float> values_of(const snug_data& data);

/// Gives the caller one array.
void give(const snug_data& data, const std::string& name, const Shape& shape,
          std::span<const float> values);

[[nodiscard]] int64_t elements_of(const snug_array& array);

}  // namespace snug::c_api
