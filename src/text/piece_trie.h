// SPDX-License-Identifier: Apache-2.0
// A trie of pieces as a double array: every step to a child is one look-up.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace snug::text {

class PieceTrie {
 public:
  using Piece = std::pair<std::string_view, int32_t>;  // text, id

  PieceTrie() = default;
  /// No text may be empty, and none stands twice.
  explicit PieceTrie(std::vector<Piece> pieces);

  static constexpr uint32_t kRoot = 1;
  /// The child by a byte, or 0.
  [[nodiscard]] uint32_t child(uint32_t node, unsigned char byte) const {
    const uint32_t at = nodes_[node].base + byte;
    return nodes_[at].parent == node ? at : 0;
  }
  /// The id of the piece that ends here, or -1.
  [[nodiscard]] int32_t id(uint32_t node) const { return nodes_[node].id; }
  [[nodiscard]] int64_t heap_bytes() const {
    return static_cast<int64_t>(nodes_.capacity() * sizeof(Node));
  }

 private:
  struct Node {
    uint32_t base = 0;    // children lie at base + byte
    uint32_t parent = 0;  // 0: free
    int32_t id = -1;
  };
  class Builder;
  std::vector<Node> nodes_;
};

}  // namespace snug::text
