// SPDX-License-Identifier: Apache-2.0
// General categories as regular expressions of the `tokenizers` package know them: those of Unicode
// 16, whatever edition ICU has.
#pragma once

#include <unicode/uchar.h>

#include <cstdint>

namespace snug::text {

/// One bit of ICU's category masks (U_GC_L_MASK and the like).
[[nodiscard]] uint32_t category_bit(char32_t c);

}  // namespace snug::text
