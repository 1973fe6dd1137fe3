// SPDX-License-Identifier: Apache-2.0
// The cases of all op families, and their names for GoogleTest.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ops/op_case.h"

namespace snug {

[[nodiscard]] const std::vector<OpCase>& all_op_cases();
/// Those that must work, and those that must fail.
[[nodiscard]] std::vector<OpCase> good_op_cases();
[[nodiscard]] std::vector<OpCase> bad_op_cases();
/// "matmul_transpose_a": letters, digits and underscores.
[[nodiscard]] std::string test_name(const OpCase& op_case);
void PrintTo(const OpCase& op_case, std::ostream* out);  // GoogleTest's name for it

}  // namespace snug
