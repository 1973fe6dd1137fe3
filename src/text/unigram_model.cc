// SPDX-License-Identifier: Apache-2.0
// Viterbi over the ends of code points: time grows with the word times its longest pieces.
#include "text/unigram_model.h"

#include <algorithm>
#include <limits>

#include "base/index_vector.h"
#include "text/byte_pieces.h"
#include "text/piece_trie.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

// The ids of a word, twice, and a space that became three bytes.
constexpr int64_t kBytesPerNormalByte = 16;

size_t code_point_bytes(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/// The best way to every end of the word; `score_of(id, bytes)` is the piece's.
template <class Score, class ScoreOf>
void find_paths(const PieceTrie& trie, std::string_view word, int32_t unk, Score unk_score,
                std::vector<WordScratch::Path<Score>>& paths, const ScoreOf& score_of) {
  paths.assign(word.size() + 1, {.score = 0, .id = -1, .begin = 0});
  const auto offer = [&](size_t begin, size_t end, Score score, int32_t id) {
    auto& path = paths[end];
    const Score sum = score + paths[begin].score;
    if (path.id < 0 || sum > path.score)
      path = {.score = sum, .id = id, .begin = static_cast<uint32_t>(begin)};
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t single = code_point_bytes(static_cast<unsigned char>(word[begin]));
    bool has_single = false;
    uint32_t node = PieceTrie::kRoot;
    for (size_t at = begin; at < word.size();) {
      node = trie.child(node, static_cast<unsigned char>(word[at++]));
      if (node == 0) break;
      const int32_t id = trie.id(node);
      if (id < 0) continue;
      offer(begin, at, score_of(id, at - begin), id);
      has_single = has_single || at - begin == single;
    }
    if (!has_single) offer(begin, begin + single, unk_score, unk);
    begin += single;
  }
}

class UnigramModel final : public WordModel {
 public:
  UnigramModel(const TokenTable& vocabulary, std::vector<double> scores, UnigramOptions options)
      : table_(vocabulary), scores_(std::move(scores)), options_(options), bytes_(vocabulary) {
    std::vector<PieceTrie::Piece> pieces;
    for (int64_t id = 0; id < table_.size(); ++id)
      pieces.emplace_back(table_.token(id), static_cast<int32_t>(id));
    trie_ = PieceTrie(std::move(pieces));
    unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - 10.0;
  }

  void append(std::string_view word, std::vector<int32_t>& ids,
              WordScratch& scratch) const override {
    find_paths(trie_, word, options_.unk, unk_score_, scratch.paths,
               [&](int32_t id, size_t) { return scores_[id]; });
    // Backwards; what is unknown side by side is one text.
    auto& found = scratch.backwards;
    found.clear();
    for (size_t end = word.size(); end > 0;) {
      size_t begin = scratch.paths[end].begin;
      const int32_t id = scratch.paths[end].id;
      if (id != options_.unk) {
        found.push_back(id);
      } else {
        while (begin > 0 && scratch.paths[begin].id == options_.unk)
          begin = scratch.paths[begin].begin;
        add_unknown(word.substr(begin, end - begin), found);
      }
      end = begin;
    }
    ids.insert(ids.end(), found.rbegin(), found.rend());
  }
  [[nodiscard]] int32_t unk_id() const override { return options_.unk; }
  [[nodiscard]] int64_t bytes_per_byte() const override {
    return sizeof(WordScratch::Path<double>) + kBytesPerNormalByte;
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return static_cast<int64_t>(scores_.capacity() * sizeof(double)) + trie_.heap_bytes();
  }

 private:
  void add_unknown(std::string_view text, std::vector<int32_t>& backwards) const {
    if (const int32_t known = table_.find(text); known >= 0) return backwards.push_back(known);
    if (options_.byte_fallback && bytes_.has_all(text)) {
      for (auto byte = text.rbegin(); byte != text.rend(); ++byte)
        backwards.push_back(bytes_.id(*byte));
    } else {
      backwards.push_back(options_.unk);
    }
  }

  const TokenTable& table_;
  IndexVector<double> scores_;
  UnigramOptions options_;
  BytePieces bytes_;
  PieceTrie trie_;
  double unk_score_ = 0;
};

class SentencePieceUnigram final : public WordModel {
 public:
  SentencePieceUnigram(const TokenTable& vocabulary, std::span<const float> scores,
                       std::span<const PieceKind> kinds, UnigramOptions options)
      : scores_(std::vector<float>(scores.begin(), scores.end())),
        options_(options),
        bytes_(vocabulary) {
    std::vector<PieceTrie::Piece> pieces;
    float least = std::numeric_limits<float>::max();
    for (int64_t i = 0; i < vocabulary.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      is_user_defined_.push_back(kinds[at] == PieceKind::user_defined);
      if (kinds[at] == PieceKind::normal) least = std::min(least, scores[at]);
      if (kinds[at] == PieceKind::normal || kinds[at] == PieceKind::user_defined)
        pieces.emplace_back(vocabulary.token(i), static_cast<int32_t>(i));
    }
    trie_ = PieceTrie(std::move(pieces));
    unk_score_ = least - 10.0F;
  }

  void append(std::string_view word, std::vector<int32_t>& ids,
              WordScratch& scratch) const override {
    find_paths(trie_, word, options_.unk, unk_score_, scratch.short_paths,
               [&](int32_t id, size_t bytes) {
                 return is_user_defined_[static_cast<size_t>(id)]
                            ? static_cast<float>(0.1 * static_cast<double>(bytes - 1))
                            : scores_[id];
               });
    auto& found = scratch.backwards;
    found.clear();
    for (size_t end = word.size(); end > 0;) {
      const auto& path = scratch.short_paths[end];
      if (path.id != options_.unk) {
        found.push_back(path.id);
      } else if (options_.byte_fallback) {
        for (size_t at = end; at > path.begin; --at) found.push_back(bytes_.id(word[at - 1]));
      } else if (end == word.size() || found.back() != options_.unk) {
        found.push_back(options_.unk);
      }
      end = path.begin;
    }
    ids.insert(ids.end(), found.rbegin(), found.rend());
  }
  [[nodiscard]] int32_t unk_id() const override { return options_.unk; }
  [[nodiscard]] int64_t bytes_per_byte() const override {
    return sizeof(WordScratch::Path<float>) + kBytesPerNormalByte;
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return static_cast<int64_t>(scores_.capacity() * sizeof(float) +
                                is_user_defined_.capacity() / 8) +
           trie_.heap_bytes();
  }

 private:
  IndexVector<float> scores_;
  std::vector<bool> is_user_defined_;
  UnigramOptions options_;
  BytePieces bytes_;
  PieceTrie trie_;
  float unk_score_ = 0;
};

}  // namespace

std::unique_ptr<const WordModel> make_unigram(const TokenTable& vocabulary,
                                              std::vector<double> scores, UnigramOptions options) {
  return std::make_unique<const UnigramModel>(vocabulary, std::move(scores), options);
}

std::unique_ptr<const WordModel> make_sentencepiece_unigram(const TokenTable& vocabulary,
                                                            std::span<const float> scores,
                                                            std::span<const PieceKind> kinds,
                                                            UnigramOptions options) {
  return std::make_unique<const SentencePieceUnigram>(vocabulary, scores, kinds, options);
}

}  // namespace snug::text
