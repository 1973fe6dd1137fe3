// SPDX-License-Identifier: Apache-2.0
#include "io/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace snug::io {
namespace {

// Optimal string alignment distance: insert, delete, replace, swap neighbours; three rows of the
// usual table.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  // Foreign names can be long; nobody misspells one of more than this.
  constexpr size_t kLongestName = 256;
  if (name.empty() || name.size() > kLongestName) return {};
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  size_t best = limit + 1;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(candidate.size(), name.size());
    const size_t shorter = std::min(candidate.size(), name.size());
    if (longer - shorter >= best) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      found = &candidate;
    }
  }
  return found == nullptr ? std::string() : *found;
}

}  // namespace snug::io
