// SPDX-License-Identifier: Apache-2.0
#include "text/sentencepiece_normalizer.h"

#include "text/charsmap.h"
#include "text/piece_trie.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

class SentencePieceStep final : public NormalizerStep {
 public:
  explicit SentencePieceStep(const TokenizerSpec& spec)
      : spec_(*spec.sentencepiece),
        map_(std::string(spec_.charsmap), spec.where),
        space_(spec_.escape_whitespaces ? "\xE2\x96\x81" : " ") {
    std::vector<PieceTrie::Piece> pieces;
    for (int64_t id = 0; id < spec.vocabulary.size(); ++id) {
      if (spec_.kinds[static_cast<size_t>(id)] == PieceKind::user_defined)
        pieces.emplace_back(spec.vocabulary.token(id), static_cast<int32_t>(id));
    }
    whole_ = PieceTrie(std::move(pieces));
  }

  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    size_t at = 0;
    if (spec_.remove_extra_whitespaces) {
      for (size_t next = at; next < text.size(); at = next) {
        if (prefix(text, next) != " ") break;
      }
    }
    if (at == text.size()) return false;
    if (spec_.add_dummy_prefix) out += space_;
    bool is_behind_space = spec_.remove_extra_whitespaces;
    while (at < text.size()) {
      std::string_view part = prefix(text, at);
      while (is_behind_space && part.starts_with(' ')) part.remove_prefix(1);
      if (part.empty()) continue;
      for (char c : part) {
        if (c == ' ') {
          out += space_;
        } else {
          out.push_back(c);
        }
      }
      is_behind_space = spec_.remove_extra_whitespaces && part.ends_with(' ');
    }
    while (spec_.remove_extra_whitespaces && out.ends_with(space_))
      out.resize(out.size() - space_.size());
    return false;
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return map_.heap_bytes() + whole_.heap_bytes();
  }

 private:
  /// What the text at `at` becomes, and moves `at` behind it.
  std::string_view prefix(std::string_view text, size_t& at) const {
    const size_t begin = at;
    size_t end = 0;
    uint32_t node = PieceTrie::kRoot;
    for (size_t i = begin; i < text.size(); ++i) {
      node = whole_.child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) break;
      if (whole_.id(node) >= 0) end = i + 1;
    }
    if (end > 0) {
      at = end;
      return text.substr(begin, end - begin);
    }
    const Charsmap::Match match = map_.longest(text.substr(begin));
    if (match.length > 0) {
      at += match.length;
      return match.replacement;
    }
    (void)next_code_point(text, at);
    return text.substr(begin, at - begin);
  }

  const SentencePieceSpec& spec_;
  Charsmap map_;
  std::string_view space_;
  PieceTrie whole_;  // user-defined pieces stay as they are
};

}  // namespace

Normalizer make_sentencepiece_normalizer(const TokenizerSpec& spec) {
  std::vector<std::unique_ptr<NormalizerStep>> steps;
  steps.push_back(std::make_unique<SentencePieceStep>(spec));
  return Normalizer(std::move(steps));
}

}  // namespace snug::text
