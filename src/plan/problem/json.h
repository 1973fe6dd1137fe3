// SPDX-License-Identifier: Apache-2.0
// Problems and plans as JSON text, exact both ways: from_json(to_json(x)) == x.
#pragma once

#include <string>
#include <string_view>

#include "io/json_file.h"
#include "plan/problem/plan.h"

namespace snug::plan {

[[nodiscard]] std::string to_json(const Problem& problem);
[[nodiscard]] std::string to_json(const Plan& plan);

/// Throw Error{bad_data} that names the field where the text is not a problem (or plan). Ids are
/// checked by validate() and check(), not here.
[[nodiscard]] Problem problem_from_json(std::string_view text);
[[nodiscard]] Plan plan_from_json(std::string_view text);
[[nodiscard]] Plan plan_from_json(const io::JsonValue& json);

}  // namespace snug::plan
