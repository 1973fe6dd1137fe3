// SPDX-License-Identifier: Apache-2.0
#include "notices/say.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace snug::notices {

void say(const RunOptions& options, const std::string& text) {
  if (!text.empty() && options.callbacks.on_message) options.callbacks.on_message(printable(text));
}

void say(const RunOptions& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) say(options, text);
}

void warn(const RunOptions& options, const Warning& warning) {
  say(options, "warning: " + warning.text);
  if (options.callbacks.on_warning) options.callbacks.on_warning(warning);
}

void warn(const RunOptions& options, const std::optional<Warning>& warning) {
  if (warning) warn(options, *warning);
}

void warn(const RunOptions& options, const std::vector<Warning>& warnings) {
  for (const Warning& warning : warnings) warn(options, warning);
}

RunOptions gathering(const RunOptions& options, std::vector<Warning>& warnings) {
  RunOptions out = options;
  out.callbacks.on_warning = [&warnings, also = options.callbacks.on_warning](const Warning& each) {
    warnings.push_back(each);
    if (also) also(each);
  };
  return out;
}

double share_of(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace snug::notices
