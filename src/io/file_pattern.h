// SPDX-License-Identifier: Apache-2.0
// Files by a pattern of their names, as shells know it: * any bytes, ? one of them, [a-z] one of
// some, [!a-z] one of the others; none of them a slash, nor a point at the beginning of a name. The
// same in every locale, unlike the C library's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug::io {

[[nodiscard]] bool has_wildcard(std::string_view path);
[[nodiscard]] bool matches_pattern(std::string_view name, std::string_view pattern);
/// The files that a path with wildcards means, sorted by their bytes; folders are none.
[[nodiscard]] std::vector<std::string> files_like(const std::string& pattern);

}  // namespace snug::io
