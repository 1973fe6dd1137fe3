// SPDX-License-Identifier: Apache-2.0
// Writing what the library gave as text (a report, a page, a schedule) to a file.
#pragma once

#include <string>
#include <string_view>

namespace snug {

/// Writes the file whole, or leaves what is there. Throws Error{io} that says why it cannot.
void write_text(const std::string& file, std::string_view text);

}  // namespace snug
