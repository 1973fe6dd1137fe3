// SPDX-License-Identifier: Apache-2.0
// What can be read once: standard input, a pipe, a device. What several passes need of it is copied
// to a file first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace snug::io {

/// Standard input, by this name on a command line.
inline constexpr const char* kStandardInput = "-";

/// "-", what /dev/stdin and /dev/fd have, and whatever is neither a file, nor a folder, nor absent.
[[nodiscard]] bool is_stream(const std::string& path);

/// Copies a stream to its end into `folder`/stream-HASH, HASH being the first digits of its
/// SHA-256, and returns that path with what `suffix_of` (which is given the path of the copy) says
/// behind it: equal streams are one file. `on_bytes` hears how much is copied, at least five times
/// a second while it waits, and may throw. Throws Error{bad_data} for a stream without a byte, and
/// for a terminal; Error{io}.
[[nodiscard]] std::string copy_stream(
    const std::string& path, const std::string& folder,
    const std::function<std::string(const std::string&)>& suffix_of,
    const std::function<void(int64_t bytes)>& on_bytes);

}  // namespace snug::io
