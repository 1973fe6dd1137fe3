// SPDX-License-Identifier: Apache-2.0
// Symbols stand where they begin in the text, so that the one behind a symbol needs no link. Time
// grows with the text times the logarithm of its length.
#include "text/sentencepiece_bpe.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/index_vector.h"
#include "text/byte_pieces.h"
#include "text/piece_trie.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

using Merge = WordScratch::Merge;
using Symbol = WordScratch::Symbol;  // `id`: its bytes, 0 where it went into the one before it;
                                     // `next`: 1 where it does not merge

/// The greater the score, the smaller.
uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  return bits >> 31 == 0 ? 0x7FFFFFFFu - bits : bits;
}

class SentencePieceBpe final : public WordModel {
 public:
  SentencePieceBpe(const TokenTable& vocabulary, std::span<const float> scores,
                   std::span<const PieceKind> kinds, UnigramOptions options)
      : table_(vocabulary),
        kinds_(std::vector<PieceKind>(kinds.begin(), kinds.end())),
        options_(options),
        bytes_(vocabulary) {
    std::vector<PieceTrie::Piece> whole;
    std::vector<uint32_t> ranks;
    for (int64_t i = 0; i < vocabulary.size(); ++i) {
      ranks.push_back(rank_of(scores[static_cast<size_t>(i)]));
      if (kinds_[i] == PieceKind::user_defined)
        whole.emplace_back(vocabulary.token(i), static_cast<int32_t>(i));
    }
    ranks_ = IndexVector<uint32_t>(std::move(ranks));
    whole_ = PieceTrie(std::move(whole));
  }

  void append(std::string_view word, std::vector<int32_t>& ids,
              WordScratch& scratch) const override {
    std::vector<Symbol>& symbols = scratch.symbols;
    std::vector<Merge>& heap = scratch.merges;
    Splits splits;
    cut(word, symbols);
    heap.clear();
    const auto size = static_cast<int32_t>(word.size());
    const auto symbol = [&](int32_t at) -> Symbol& { return symbols[static_cast<size_t>(at)]; };
    const auto later = [](const Merge& a, const Merge& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto propose = [&](int32_t left) {
      const int32_t right = left < 0 ? size : left + symbol(left).id;
      if (right >= size || symbol(left).next == 1 || symbol(right).next == 1) return false;
      const int32_t bytes = symbol(left).id + symbol(right).id;
      const int32_t id = find(word.substr(static_cast<size_t>(left), static_cast<size_t>(bytes)));
      if (id < 0) return false;
      if (kinds_[id] == PieceKind::unused) splits[id] = symbol(left).id;
      heap.push_back({ranks_[id], left, bytes});
      return true;
    };
    for (int32_t at = 0; at < size; at += symbol(at).id) (void)propose(at);
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const Merge top = heap.back();
      heap.pop_back();
      Symbol& left = symbol(top.place);
      const int32_t right = top.place + left.id;
      // What was proposed is gone where the symbol is, or where both have other bytes by now.
      if (left.id == 0 || right >= size || left.id + symbol(right).id != top.id) continue;
      symbol(right).id = 0;
      left.id = top.id;
      if (top.place + left.id < size) symbol(top.place + left.id).previous = top.place;
      if (propose(left.previous)) std::push_heap(heap.begin(), heap.end(), later);
      if (propose(top.place)) std::push_heap(heap.begin(), heap.end(), later);
    }
    bool was_unknown = false;
    for (int32_t at = 0; at < size; at += symbol(at).id) {
      add(word.substr(static_cast<size_t>(at), static_cast<size_t>(symbol(at).id)), splits, 0,
          was_unknown, ids);
    }
  }
  [[nodiscard]] int32_t unk_id() const override { return options_.unk; }
  // A symbol and two proposed merges a byte, in vectors that double.
  [[nodiscard]] int64_t bytes_per_byte() const override {
    return 2 * (sizeof(Symbol) + 2 * sizeof(Merge));
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return static_cast<int64_t>(ranks_.capacity() * sizeof(uint32_t) + kinds_.capacity()) +
           whole_.heap_bytes();
  }

 private:
  using Splits = std::unordered_map<int32_t, int32_t>;  // bytes on the left of an unused piece
  static constexpr int kDeepest = 100;                  // the package's

  /// The id of a piece that merges make, or -1.
  [[nodiscard]] int32_t find(std::string_view text) const {
    const int32_t id = table_.find(text);
    if (id < 0) return -1;
    const PieceKind kind = kinds_[id];
    const bool is_made =
        kind == PieceKind::normal || kind == PieceKind::user_defined || kind == PieceKind::unused;
    return is_made ? id : -1;
  }

  /// Characters, and the longest user-defined pieces, which stay whole.
  void cut(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.assign(word.size(), {.id = 0, .previous = -1, .next = 0});
    int32_t previous = -1;
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      uint32_t node = PieceTrie::kRoot;
      size_t end = 0;
      for (size_t i = begin; i < word.size(); ++i) {
        node = whole_.child(node, static_cast<unsigned char>(word[i]));
        if (node == 0) break;
        if (whole_.id(node) >= 0) end = i + 1;
      }
      if (end > 0) {
        at = end;
      } else {
        (void)next_code_point(word, at);
      }
      symbols[begin] = {
          .id = static_cast<int32_t>(at - begin), .previous = previous, .next = end > 0 ? 1 : 0};
      previous = static_cast<int32_t>(begin);
    }
  }

  /// Unused pieces only serve to make others: what they were made of takes their place.
  void add(std::string_view text, const Splits& splits, int depth, bool& was_unknown,
           std::vector<int32_t>& ids) const {
    const int32_t id = find(text);
    if (id >= 0 && kinds_[id] == PieceKind::unused && depth <= kDeepest) {
      if (const auto split = splits.find(id); split != splits.end()) {
        const auto left = static_cast<size_t>(split->second);
        add(text.substr(0, left), splits, depth + 1, was_unknown, ids);
        return add(text.substr(left), splits, depth + 1, was_unknown, ids);
      }
      return add_unknown(text, was_unknown, ids);
    }
    if (id < 0) return add_unknown(text, was_unknown, ids);
    was_unknown = false;
    ids.push_back(id);
  }

  void add_unknown(std::string_view text, bool& was_unknown, std::vector<int32_t>& ids) const {
    if (options_.byte_fallback) {
      for (char byte : text) ids.push_back(bytes_.id(byte));
    } else if (!was_unknown) {
      ids.push_back(options_.unk);
    }
    was_unknown = true;
  }

  const TokenTable& table_;
  IndexVector<uint32_t> ranks_;
  IndexVector<PieceKind> kinds_;
  UnigramOptions options_;
  BytePieces bytes_;
  PieceTrie whole_;
};

}  // namespace

std::unique_ptr<const WordModel> make_sentencepiece_bpe(const TokenTable& vocabulary,
                                                        std::span<const float> scores,
                                                        std::span<const PieceKind> kinds,
                                                        UnigramOptions options) {
  return std::make_unique<const SentencePieceBpe>(vocabulary, scores, kinds, options);
}

}  // namespace snug::text
