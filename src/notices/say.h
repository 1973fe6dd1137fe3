// SPDX-License-Identifier: Apache-2.0
// What a run says while it goes on. Messages are told; warnings are told in one form, a line that
// begins with "warning:", and given as values, too (Callbacks::on_warning, summary.json).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "snug/run.h"

namespace snug::notices {

/// Passes the text on as a message; an empty one is none.
void say(const RunOptions& options, const std::string& text);
void say(const RunOptions& options, const std::vector<std::string>& texts);

void warn(const RunOptions& options, const Warning& warning);
void warn(const RunOptions& options, const std::optional<Warning>& warning);
void warn(const RunOptions& options, const std::vector<Warning>& warnings);

/// The same options; warnings are appended to `warnings`, too, which outlives them.
[[nodiscard]] RunOptions gathering(const RunOptions& options, std::vector<Warning>& warnings);

/// The share that a warning states; 0 of nothing.
[[nodiscard]] double share_of(int64_t part, int64_t whole);
/// "12.3 %"
[[nodiscard]] std::string share_text(double share);

}  // namespace snug::notices
