// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace snug {

/// True where `pattern` (with * for any text) matches the whole name.
[[nodiscard]] bool matches_wildcard(std::string_view pattern, std::string_view name);

}  // namespace snug
