// SPDX-License-Identifier: Apache-2.0
// For every place of a text the longest of many patterns that begins there, in time proportional to
// the text only: the automaton of Aho and Corasick, made of the patterns read backwards, goes from
// the end of the text to its beginning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace snug::text {

class LongestPatterns {
 public:
  LongestPatterns() = default;
  /// None may be empty; of equal ones the first counts.
  explicit LongestPatterns(const std::vector<std::string_view>& patterns);

  /// longest[i]: the pattern that stands at text[begin + i], or -1. Its time grows with
  /// longest.size() plus the bytes of the longest pattern.
  void find(std::string_view text, size_t begin, std::span<int32_t> longest) const;

  /// Heap bytes held, in proportion to the bytes of all patterns.
  [[nodiscard]] int64_t heap_bytes() const;

 private:
  // A node is an end of a pattern: its last bytes, as many as the node is deep. Nodes lie in the
  // order of their depth, so the children of n are those from its first_child up to that of n + 1.
  struct Node {
    uint32_t first_child = 0;
    uint32_t fallback = 0;  // the longest shorter beginning of this end that is an end, too
    int32_t match = -1;     // the longest pattern that this end begins with
    unsigned char byte = 0;
  };
  [[nodiscard]] uint32_t child(uint32_t node, unsigned char byte) const;
  [[nodiscard]] uint32_t step(uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;              // the root first, and one more behind the last
  std::array<uint32_t, 256> at_root_{};  // the root's children by byte; 0: none
  size_t longest_bytes_ = 0;
};

}  // namespace snug::text
