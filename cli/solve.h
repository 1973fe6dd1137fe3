// SPDX-License-Identifier: Apache-2.0
// The parts of `snug solve`: one function a sub-verb, and how they read their words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace snug::cli {

/// Prints help and returns false where it was asked for; throws Error{bad_config} for what the app
/// does not know.
[[nodiscard]] bool parse_solve_words(CLI::App& app, const std::vector<std::string>& words);

int solve_placement_verb(const std::vector<std::string>& words);
int solve_remat_verb(const std::vector<std::string>& words);
int solve_check_verb(const std::vector<std::string>& words);

}  // namespace snug::cli
