// SPDX-License-Identifier: Apache-2.0
// A word costs the logarithm of its length for each merge: candidates wait in a heap, symbols are a
// linked list. Short words, which are nearly all, are scanned instead.
#include "text/bpe_model.h"

#include <algorithm>
#include <array>
#include <limits>

#include "snug/error.h"
#include "text/byte_pieces.h"
#include "text/merge_table.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

using Symbol = WordScratch::Symbol;
using Merge = WordScratch::Merge;

class BpeModel final : public WordModel {
 public:
  BpeModel(const TokenTable& vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options,
           const std::string& where)
      : table_(vocabulary), options_(std::move(options)), merges_(merges), bytes_(vocabulary) {
    if (!options_.unk_token.empty()) {
      unk_ = table_.find(options_.unk_token);
      if (unk_ < 0)
        throw Error(ErrorCode::bad_data, where,
                    "the vocabulary has no unk token '" + options_.unk_token + "'",
                    "name the vocabulary's own in model.unk_token, or put it at the vocabulary's "
                    "end, which shifts no id");
    }
    for (char32_t c = 0; c < characters_.size(); ++c) {
      std::string text;
      append_utf8(c, text);
      characters_[c] = table_.find(text);
    }
  }

  void append(std::string_view word, std::vector<int32_t>& ids,
              WordScratch& scratch) const override {
    if (options_.ignore_merges) {
      if (const int32_t id = table_.find(word); id >= 0) return ids.push_back(id);
    }
    std::vector<Symbol>& symbols = scratch.symbols;
    symbols.clear();
    add_symbols(word, scratch);
    constexpr size_t kShort = 24;
    if (symbols.size() <= kShort) {
      merge_short(symbols);
      for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
    } else {
      merge_long(symbols, scratch.merges);
      for (int32_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next)
        ids.push_back(symbols[static_cast<size_t>(at)].id);
    }
  }
  [[nodiscard]] int32_t unk_id() const override { return unk_; }
  // A symbol and two proposed merges a byte, in vectors that double.
  [[nodiscard]] int64_t bytes_per_byte() const override {
    return 2 * (sizeof(Symbol) + 2 * sizeof(Merge));
  }
  [[nodiscard]] int64_t heap_bytes() const override { return merges_.heap_bytes(); }

 private:
  void add_symbols(std::string_view word, WordScratch& scratch) const {
    const auto add = [&](int32_t id) {
      scratch.symbols.push_back({.id = id, .previous = 0, .next = 0});
    };
    const bool is_plain = options_.prefix.empty() && options_.suffix.empty();
    bool has_unk = false;  // one waits to be written
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(word, at);
      int32_t id = -1;
      std::string_view text = word.substr(begin, at - begin);
      if (is_plain) {
        id = c < characters_.size() ? characters_[c] : table_.find(text);
      } else {
        std::string& piece = scratch.piece;
        piece.clear();
        if (begin > 0) piece += options_.prefix;
        piece += text;
        if (at == word.size()) piece += options_.suffix;
        text = piece;
        id = table_.find(text);
      }
      if (id >= 0) {
        if (has_unk) add(unk_);
        has_unk = false;
        add(id);
        continue;
      }
      if (options_.byte_fallback && bytes_.has_all(text)) {
        // The package leaves a waiting unknown behind the bytes.
        for (char byte : text) add(bytes_.id(byte));
        continue;
      }
      if (unk_ < 0) continue;
      if (has_unk && !options_.fuse_unk) add(unk_);
      has_unk = true;
    }
    if (has_unk) add(unk_);
  }

  void merge_short(std::vector<Symbol>& symbols) const {
    // `previous` holds the rank of a symbol with the one behind it, `next` what they become.
    constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
    const auto rank = [&](size_t i) {
      const MergeTable::Found found = i + 1 < symbols.size()
                                          ? merges_.find(symbols[i].id, symbols[i + 1].id)
                                          : MergeTable::Found{};
      symbols[i].previous = found.id < 0 ? kNever : static_cast<int32_t>(found.rank);
      symbols[i].next = found.id;
    };
    for (size_t i = 0; i < symbols.size(); ++i) rank(i);
    while (symbols.size() > 1) {
      size_t best = 0;
      for (size_t i = 1; i < symbols.size(); ++i) {
        if (symbols[i].previous < symbols[best].previous) best = i;
      }
      if (symbols[best].previous == kNever) return;
      symbols[best].id = symbols[best].next;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      rank(best);
      if (best > 0) rank(best - 1);
    }
  }

  void merge_long(std::vector<Symbol>& symbols, std::vector<Merge>& heap) const {
    const auto later = [](const Merge& a, const Merge& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
    heap.clear();
    const auto propose = [&](int32_t left, bool is_sorted) {
      const int32_t right = left < 0 ? -1 : symbol(left).next;
      if (right < 0) return;
      const MergeTable::Found found = merges_.find(symbol(left).id, symbol(right).id);
      if (found.id < 0) return;
      heap.push_back({found.rank, left, found.id});
      if (is_sorted) std::push_heap(heap.begin(), heap.end(), later);
    };
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      symbol(i).previous = i - 1;
      symbol(i).next = i + 1 < count ? i + 1 : -1;
    }
    for (int32_t i = 0; i < count; ++i) propose(i, false);
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const Merge top = heap.back();
      heap.pop_back();
      Symbol& left = symbol(top.place);
      if (left.id < 0 || left.next < 0) continue;
      Symbol& right = symbol(left.next);
      if (merges_.find(left.id, right.id).id != top.id) continue;  // what was proposed is gone
      left.id = top.id;
      right.id = -1;
      left.next = right.next;
      if (right.next >= 0) symbol(right.next).previous = top.place;
      propose(left.previous, true);
      propose(top.place, true);
    }
  }

  const TokenTable& table_;
  BpeOptions options_;
  MergeTable merges_;
  BytePieces bytes_;
  int32_t unk_ = -1;
  std::array<int32_t, 0x180> characters_{};  // by code point: GPT-2's alphabet and ASCII
};

}  // namespace

std::unique_ptr<const WordModel> make_bpe(const TokenTable& vocabulary,
                                          const std::vector<BpeMerge>& merges, BpeOptions options,
                                          const std::string& where) {
  return std::make_unique<const BpeModel>(vocabulary, merges, std::move(options), where);
}

}  // namespace snug::text
