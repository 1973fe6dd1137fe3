// SPDX-License-Identifier: Apache-2.0
// Bytes and durations as text, both ways. 1 KiB = 1 Ki = 1024 bytes, 1 KB = 1 K = 1000 bytes, in
// any case; a plain number is bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

inline constexpr int64_t kPageBytes = 4096;
/// The size of a large page on x86, and on Arm with pages of 4 KiB.
inline constexpr int64_t kLargePageBytes = int64_t{2} << 20;

[[nodiscard]] constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// "1.50 GiB", "12.0 MiB", "640 B".
[[nodiscard]] std::string format_bytes(int64_t bytes);
/// As format_bytes, rounded up: parse_bytes of it gives at least `bytes`. For budgets, which people
/// type as they read them.
[[nodiscard]] std::string format_bytes_up(int64_t bytes);
/// "B", "MiB", "GB", "g".
[[nodiscard]] bool is_byte_unit(std::string_view word);
/// "1.2 ms", "3.4 s", "2 min 05 s", "1 h 03 min".
[[nodiscard]] std::string format_seconds(double seconds);
/// Reads "900MiB", "2GB", "2Gi", "512m", "4096"; throws Error{bad_config} that names `key`.
[[nodiscard]] int64_t parse_bytes(std::string_view text, std::string_view key);

}  // namespace snug
