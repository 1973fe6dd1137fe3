// SPDX-License-Identifier: Apache-2.0
// The parts of `snug solve`: one function a sub-verb.
#pragma once

#include <string>
#include <vector>

namespace snug::cli {

int solve_placement_verb(const std::vector<std::string>& words);
int solve_remat_verb(const std::vector<std::string>& words);
int solve_check_verb(const std::vector<std::string>& words);

/// Throws Error{bad_config} where the result would be written over the problem.
void check_output(const std::string& problem, const std::string& output);

}  // namespace snug::cli
