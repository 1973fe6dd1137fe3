// SPDX-License-Identifier: Apache-2.0
// The one check of UTF-8, strict (RFC 3629: no overlong forms, no surrogates, nothing above
// U+10FFFF).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

/// Returns the offset of the first byte that is not part of valid UTF-8; none where all of it is.
[[nodiscard]] std::optional<size_t> first_invalid_utf8(std::string_view text);

/// How text of another encoding becomes UTF-8; with a file's name behind it the command runs.
inline constexpr const char* kToUtf8 =
    "convert it to UTF-8, with its own encoding behind -f (of western Windows: iconv -f "
    "windows-1252 -t utf-8)";

/// At most `max_bytes` of a valid text, cut between characters, "..." appended where something is
/// cut.
[[nodiscard]] std::string clip_text(std::string_view text, size_t max_bytes);

}  // namespace snug
