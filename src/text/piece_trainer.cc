// SPDX-License-Identifier: Apache-2.0
// The trainers know characters only, and mark the begin of a word by a character of its own, which
// would merge like any other. Here each symbol is one code point instead, from a range in which the
// trainers treat no character specially: pieces are then made of the caller's symbols only.
#include "text/piece_trainer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>

#include "base/check.h"
#include "base/given_threads.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

constexpr char32_t kFirstCodePoint = 0x3400;
constexpr int64_t kUnknownPieces = 1;  // the trainer's own

/// A line for the trainer: the symbols of a word as code points, a tab, its count.
struct Line {
  const SymbolWord* word;
  int64_t count;
};

class WordLines : public sentencepiece::SentenceIterator {
 public:
  explicit WordLines(const std::vector<Line>& lines) : lines_(lines) { fill(); }
  [[nodiscard]] bool done() const override { return at_ >= lines_.size(); }
  void Next() override {
    ++at_;
    fill();
  }
  [[nodiscard]] const std::string& value() const override { return line_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  void fill() {
    if (done()) return;
    line_.clear();
    for (uint16_t symbol : lines_[at_].word->symbols) append_utf8(kFirstCodePoint + symbol, line_);
    line_ += "\t" + std::to_string(lines_[at_].count);
  }

  const std::vector<Line>& lines_;
  size_t at_ = 0;
  std::string line_;
};

using Settings = std::unordered_map<std::string, std::string>;

// The library reads numbers by the locale that the host has set: whole ones are the same in all.
Settings settings_of(const std::string& model_type, int64_t pieces, const std::string& longest) {
  return {
      {"model_type", model_type},
      {"input_format", "tsv"},
      {"vocab_size", std::to_string(kUnknownPieces + pieces)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", "1"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"split_by_unicode_script", "false"},
      {"split_by_number", "false"},
      {"max_sentencepiece_length", longest},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"self_test_sample_size", "0"},
      {"num_threads", "1"},
      {"minloglevel", "2"},
  };
}

/// What the trainer makes, in its order, without its own piece and those with its own mark.
std::vector<ScoredPiece> train(const Settings& settings, const std::vector<Line>& lines) {
  WordLines iterator(lines);
  std::string model;
  try {
    const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model);
    SNUG_CHECK(status.ok(), status.ToString());
  } catch (const std::system_error& error) {  // one thread is one beside the caller's
    throw no_thread("learn a vocabulary", error);
  }
  sentencepiece::SentencePieceProcessor reader;
  const auto loaded = reader.LoadFromSerializedProto(model);
  SNUG_CHECK(loaded.ok(), loaded.ToString());
  std::vector<ScoredPiece> pieces;
  for (int id = 0; id < reader.GetPieceSize(); ++id) {
    if (reader.IsUnknown(id) || reader.IsControl(id)) continue;
    const std::string& text = reader.IdToPiece(id);
    ScoredPiece piece{.symbols = {}, .score = reader.GetScore(id)};
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_code_point(text, at);
      if (c < kFirstCodePoint || c >= kFirstCodePoint + kMaxSymbols) {
        piece.symbols.clear();
        break;
      }
      piece.symbols.push_back(static_cast<uint16_t>(c - kFirstCodePoint));
    }
    if (!piece.symbols.empty()) pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

std::vector<std::vector<uint16_t>> train_pieces(const std::vector<SymbolWord>& words,
                                                int64_t merges) {
  std::vector<std::vector<uint16_t>> pieces;
  if (words.empty() || merges <= 0) return pieces;
  std::vector<bool> is_used(static_cast<size_t>(kMaxSymbols), false);
  int64_t used = 0;
  std::vector<Line> lines;
  for (const SymbolWord& word : words) {
    lines.push_back({&word, word.count});
    for (uint16_t symbol : word.symbols) {
      used += !is_used[symbol];
      is_used[symbol] = true;
    }
  }
  for (ScoredPiece& piece : train(settings_of("bpe", used + merges, "32"), lines)) {
    if (piece.symbols.size() >= 2 && static_cast<int64_t>(pieces.size()) < merges)
      pieces.push_back(std::move(piece.symbols));
  }
  return pieces;
}

std::vector<ScoredPiece> train_unigram(const std::vector<SymbolWord>& words, int64_t size) {
  if (words.empty()) return {};
  // The trainer begins with what stands in two lines or more, whatever their counts: a word that
  // was seen twice is given as two.
  std::vector<Line> lines;
  for (const SymbolWord& word : words) {
    lines.push_back({&word, word.count - word.count / 2});
    if (word.count > 1) lines.push_back({&word, word.count / 2});
  }
  std::vector<ScoredPiece> pieces = train(settings_of("unigram", size, "16"), lines);
  if (std::ssize(pieces) > size) pieces.resize(static_cast<size_t>(size));
  return pieces;
}

}  // namespace snug::text
