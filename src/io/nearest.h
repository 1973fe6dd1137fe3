// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...": the known name nearest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace snug::io {

/// The candidate with the smallest edit distance (swaps of neighbours count one), if that is at
/// most a third of the name's length (at least 1); empty otherwise. Ties go to the first.
[[nodiscard]] std::string nearest_name(std::string_view name,
                                       std::span<const std::string> candidates);

}  // namespace snug::io
