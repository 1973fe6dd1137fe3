// SPDX-License-Identifier: Apache-2.0
// How many cores the control groups leave to this process.
#pragma once

#include <optional>
#include <string>

namespace snug::config {

/// The tightest CPU quota of the process's control group and its ancestors, in cores; nothing where
/// none has one. A group that has used its quota stands still for the rest of the period.
[[nodiscard]] std::optional<double> group_cores(const std::string& root = "/");

}  // namespace snug::config
