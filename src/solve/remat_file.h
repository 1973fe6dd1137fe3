// SPDX-License-Identifier: Apache-2.0
// Problem and schedule files of `snug solve remat`; docs/solve.md describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::solve {

/// Reads a problem; names are ids of the file, bytes are not rounded. Throws Error{bad_data} or
/// Error{invalid_graph} that names the place.
[[nodiscard]] plan::Problem load_remat_problem(const std::string& path);
/// The same from a text; `name` stands for it in errors.
[[nodiscard]] plan::Problem parse_remat_problem(std::string_view text, const std::string& name);

struct ScheduleFile {
  std::vector<std::string> ops;               // ids of the problem file, known or not
  std::optional<int64_t> boundary_step = {};  // how many of them lie in the forward part
};

[[nodiscard]] ScheduleFile load_remat_schedule(const std::string& path);

}  // namespace snug::solve
