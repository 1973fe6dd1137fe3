// SPDX-License-Identifier: Apache-2.0
#include "text/piece_trie.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/check.h"

namespace snug::text {

/// Places the children of one node after the other, breadth first, in the first gap that takes
/// them.
class PieceTrie::Builder {
 public:
  Builder(const std::vector<Piece>& pieces, std::vector<Node>& nodes)
      : pieces_(pieces), nodes_(nodes) {}

  void build() {
    nodes_.resize(kRoot + 1);
    nodes_[kRoot].parent = static_cast<uint32_t>(-1);  // taken; no byte leads here
    ranges_.push_back({kRoot, 0, pieces_.size(), 0});
    for (size_t i = 0; i < ranges_.size(); ++i) place_children(ranges_[i]);
    // Every node may be asked for every byte.
    nodes_.resize(nodes_.size() + 256);
    nodes_.shrink_to_fit();
  }

 private:
  struct Range {  // the pieces that go through a node
    uint32_t node;
    size_t begin, end, depth;
  };

  void place_children(const Range range) {
    std::vector<Range> children;
    bytes_.clear();
    for (size_t at = range.begin; at < range.end;) {
      const std::string_view text = pieces_[at].first;
      if (text.size() == range.depth) {
        nodes_[range.node].id = pieces_[at].second;
        ++at;
        continue;
      }
      size_t end = at;
      while (end < range.end && pieces_[end].first[range.depth] == text[range.depth]) ++end;
      bytes_.push_back(static_cast<unsigned char>(text[range.depth]));
      children.push_back({0, at, end, range.depth + 1});
      at = end;
    }
    if (children.empty()) {
      // A base of its own that meets no child: parent is compared, so any will do.
      nodes_[range.node].base = 0;
      return;
    }
    const uint32_t base = find_base();
    nodes_[range.node].base = base;
    for (size_t i = 0; i < children.size(); ++i) {
      children[i].node = base + bytes_[i];
      nodes_[children[i].node].parent = range.node;
      ranges_.push_back(children[i]);
    }
  }

  /// The first place where all bytes fall into gaps. What is nearly full is not looked through
  /// again.
  uint32_t find_base() {
    while (first_free_ < nodes_.size() && nodes_[first_free_].parent != 0) ++first_free_;
    size_t tried = 0;
    size_t taken = 0;
    const size_t least = bytes_.front();
    for (size_t at = std::max(first_free_, least + kRoot + 1);; ++at, ++tried) {
      const size_t base = at - least;
      if (base + 256 > nodes_.size())
        nodes_.resize(std::max(nodes_.size() + nodes_.size() / 2, base + 256));
      if (nodes_[at].parent != 0) {
        ++taken;
        continue;
      }
      const bool is_free = std::all_of(bytes_.begin(), bytes_.end(), [&](unsigned char byte) {
        return nodes_[base + byte].parent == 0;
      });
      if (!is_free) continue;
      if (tried > 64 && taken * 16 > tried * 15)
        first_free_ = at;
      else if (tried > 4096)
        first_free_ += 2048;
      SNUG_CHECK(base + 256 < uint32_t{1} << 31, "a trie above 2^31 nodes");
      return static_cast<uint32_t>(base);
    }
  }

  const std::vector<Piece>& pieces_;
  std::vector<Node>& nodes_;
  std::vector<Range> ranges_;
  std::vector<unsigned char> bytes_;
  size_t first_free_ = kRoot + 1;
};

PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::lexicographical_compare(
        a.first.begin(), a.first.end(), b.first.begin(), b.first.end(), [](char x, char y) {
          return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
        });
  });
  Builder(pieces, nodes_).build();
}

}  // namespace snug::text
