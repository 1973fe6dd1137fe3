// SPDX-License-Identifier: Apache-2.0
// What number the text of a label says. One place for it: the order of classes, labels that are ids
// or names, and what looks like a column of numbers all ask here.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace snug::data {

/// The finite number that the text is in any spelling: "2", "2.0", "02", "+2", " 2 ", "2e0".
/// Nothing for any other text.
[[nodiscard]] std::optional<double> spelled_number(std::string_view text);

/// The numbers without a sign that stand in the text between other characters: 1 of "1 star", 2 and
/// 3 of "2-3 days", 1.5 of "v1.5". At most the first 8.
[[nodiscard]] std::vector<double> numbers_within(std::string_view text);

/// What tables write where a value is missing or none: "NA", "N/A", "nan", "null", "None", "inf",
/// ... in any case.
[[nodiscard]] bool says_missing(std::string_view text);

}  // namespace snug::data
