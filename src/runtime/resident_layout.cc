// SPDX-License-Identifier: Apache-2.0
#include "runtime/resident_layout.h"

#include <algorithm>

#include "base/check.h"
#include "base/stop.h"
#include "base/units.h"

namespace snug::runtime {

void ResidentLayout::add(const Graph& graph, const Backend& backend) {
  for (const Value& value : graph.values) {
    stop_point();
    if (value.kind == ValueKind::computed) continue;
    const int64_t bytes = backend.storage_bytes(value.type);
    auto [found, is_new] =
        entries_.try_emplace(value.name, Entry{value.type, value.kind, 0, bytes});
    if (is_new) continue;
    if (value.kind == ValueKind::input) {
      found->second.bytes = std::max(found->second.bytes, bytes);
    } else {
      SNUG_CHECK(found->second.type == value.type, value.name);
    }
  }
}

const ResidentLayout::Entry& ResidentLayout::at(const std::string& name) const {
  const auto found = entries_.find(name);
  SNUG_CHECK(found != entries_.end(), "no resident value " + name);
  return found->second;
}

int64_t ResidentLayout::place(int64_t alignment) {
  int64_t offset = 0;
  for (auto& [name, entry] : entries_) {
    stop_point();
    entry.offset = offset;
    offset = round_up(offset + entry.bytes, alignment);
  }
  total_bytes_ = round_up(offset, kPageBytes);
  return total_bytes_;
}

}  // namespace snug::runtime
