// SPDX-License-Identifier: Apache-2.0
// Unicode's normal forms as the `tokenizers` package makes them: decompositions of Unicode 9,
// whatever edition ICU has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug::text {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

/// A code point and its combining class.
using ClassedPoint = std::pair<uint8_t, char32_t>;

/// Appends the text in the form. `points` is working memory: it holds a character with its marks.
void append_normal_form(NormalForm form, std::string_view text, std::vector<ClassedPoint>& points,
                        std::string& out);

}  // namespace snug::text
