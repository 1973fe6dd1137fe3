// SPDX-License-Identifier: Apache-2.0
// Foreign texts in what a terminal shows, which obeys some bytes: control characters of ASCII and
// the ones that UTF-8 writes as C2 80 to C2 9F are spelled out ("\x1b").
#pragma once

#include <string>

namespace snug {

/// A text of several lines: ends of lines and tabs stay.
[[nodiscard]] std::string printable(const std::string& text);
/// A name within a line, of a label, say: ends of lines and tabs are spelled out, too.
[[nodiscard]] std::string printable_name(const std::string& name);

}  // namespace snug
