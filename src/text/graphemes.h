// SPDX-License-Identifier: Apache-2.0
// Where a user-perceived character ends (extended grapheme clusters of Unicode's annex 29).
#pragma once

#include <cstddef>
#include <string_view>

namespace snug::text {

/// The end of the cluster that begins at text[at], the begin of a cluster.
[[nodiscard]] size_t grapheme_end(std::string_view text, size_t at);

}  // namespace snug::text
