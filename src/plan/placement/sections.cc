// SPDX-License-Identifier: Apache-2.0
#include "plan/placement/sections.h"

#include <algorithm>

#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {

Sections sections_of(IndexSpan<const LiveRange> ranges) {
  std::vector<int32_t> births;
  std::vector<int32_t> deaths;
  for (const LiveRange& range : ranges) {
    if (range.bytes == 0) continue;
    births.push_back(range.first);
    deaths.push_back(range.last);
  }
  std::sort(births.begin(), births.end());
  stop_point();
  std::sort(deaths.begin(), deaths.end());
  // A set is maximal at a death when something was born since the last such death.
  std::vector<int32_t> moments;
  size_t born = 0;
  for (const int32_t death : deaths) {
    const size_t born_before = born;
    while (born < births.size() && births[born] <= death) ++born;
    if (born > born_before) moments.push_back(death);
  }
  Sections sections;
  sections.count = static_cast<int32_t>(moments.size());
  sections.of_range.resize(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    stop_point();
    if (ranges[i].bytes == 0) continue;
    const auto begin = std::lower_bound(moments.begin(), moments.end(), ranges[i].first);
    const auto end = std::upper_bound(begin, moments.end(), ranges[i].last);
    sections.of_range[i] = {static_cast<int32_t>(begin - moments.begin()),
                            static_cast<int32_t>(end - moments.begin())};
  }
  return sections;
}

}  // namespace snug::plan
