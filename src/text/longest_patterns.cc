// SPDX-License-Identifier: Apache-2.0
#include "text/longest_patterns.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/index_vector.h"

namespace snug::text {
namespace {

// The byte at `depth` from the end.
unsigned char byte_at(std::string_view pattern, size_t depth) {
  return static_cast<unsigned char>(pattern[pattern.size() - 1 - depth]);
}

std::vector<int32_t> sorted_backwards(IndexSpan<const std::string_view> patterns) {
  std::vector<int32_t> order(patterns.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const std::string_view one = patterns[a];
    const std::string_view other = patterns[b];
    return std::lexicographical_compare(one.rbegin(), one.rend(), other.rbegin(), other.rend(),
                                        std::less<unsigned char>());
  });
  return order;
}

}  // namespace

LongestPatterns::LongestPatterns(const std::vector<std::string_view>& patterns) {
  struct Range {  // the patterns, in order, that share this end
    size_t begin, end, depth;
  };
  const std::vector<int32_t> order = sorted_backwards(patterns);
  const auto pattern = [&](size_t i) {
    return IndexSpan<const std::string_view>(patterns)[order[i]];
  };
  std::vector<Range> ranges = {{0, order.size(), 0}};
  nodes_.emplace_back();
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    nodes_[n].first_child = static_cast<uint32_t>(nodes_.size());
    auto [at, end, depth] = ranges[n];
    longest_bytes_ = depth;
    nodes_[n].match = nodes_[nodes_[n].fallback].match;
    if (at < end && pattern(at).size() == depth) nodes_[n].match = order[at];
    while (at < end && pattern(at).size() == depth) ++at;
    while (at < end) {
      const unsigned char byte = byte_at(pattern(at), depth);
      size_t stop = at;
      while (stop < end && byte_at(pattern(stop), depth) == byte) ++stop;
      const uint32_t fallback = n == 0 ? 0 : step(nodes_[n].fallback, byte);
      if (n == 0) at_root_[byte] = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.fallback = fallback, .byte = byte});
      ranges.push_back({at, stop, depth + 1});
      at = stop;
    }
  }
  nodes_.push_back({.first_child = static_cast<uint32_t>(nodes_.size())});
  nodes_.shrink_to_fit();
}

uint32_t LongestPatterns::child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = nodes_.begin() + nodes_[node + 1].first_child;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& one, unsigned char wanted) { return one.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin()) : 0;
}

uint32_t LongestPatterns::step(uint32_t node, unsigned char byte) const {
  for (; node != 0; node = nodes_[node].fallback) {
    if (const uint32_t next = child(node, byte); next != 0) return next;
  }
  return at_root_[byte];
}

void LongestPatterns::find(std::string_view text, size_t begin, std::span<int32_t> longest) const {
  const size_t ahead = std::min(text.size() - begin - longest.size(), longest_bytes_);
  uint32_t node = 0;
  for (size_t i = longest.size() + ahead; i-- > 0;) {
    node = step(node, static_cast<unsigned char>(text[begin + i]));
    if (i < longest.size()) longest[i] = nodes_[node].match;
  }
}

int64_t LongestPatterns::heap_bytes() const {
  return static_cast<int64_t>(nodes_.capacity() * sizeof(Node));
}

}  // namespace snug::text
