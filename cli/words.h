// SPDX-License-Identifier: Apache-2.0
// The words of verbs that take no run configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace snug::cli {

/// Prints help and returns false where it was asked for; throws Error{bad_config} for what the app
/// does not know, and for an empty value of an option.
[[nodiscard]] bool parse_words(CLI::App& app, const std::vector<std::string>& words);

/// Throws Error{bad_config} that says `what` for an option with an empty value.
void refuse_empty_values(const CLI::App& app, const std::string& what);

}  // namespace snug::cli
