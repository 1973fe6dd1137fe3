// SPDX-License-Identifier: Apache-2.0
#include "base/wildcard.h"

#include <cstddef>

namespace snug {

bool matches_wildcard(std::string_view pattern, std::string_view name) {
  // Greedy with one backtracking point: linear for ordinary patterns.
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace snug
