// SPDX-License-Identifier: Apache-2.0
// The trainer knows characters only, and marks the begin of a word by a character of its own, which
// would merge like any other. Here each symbol ("a" at the begin of a word, "a" inside of one) is
// one code point instead, from a range in which the trainer treats no character specially: merges
// are then exactly those of WordPiece.
#include "text/piece_trainer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "base/check.h"
#include "text/unicode_rules.h"

namespace snug {
namespace {

constexpr char32_t kFirstCodePoint = 0x3400;

/// Gives the trainer one line a word: its symbols as code points, a tab, its count.
class WordLines : public sentencepiece::SentenceIterator {
 public:
  explicit WordLines(const std::vector<SymbolWord>& words) : words_(words) { fill(); }
  [[nodiscard]] bool done() const override { return at_ >= words_.size(); }
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
    for (uint16_t symbol : words_[at_].symbols) append_utf8(kFirstCodePoint + symbol, line_);
    line_ += "\t" + std::to_string(words_[at_].count);
  }

  const std::vector<SymbolWord>& words_;
  size_t at_ = 0;
  std::string line_;
};

}  // namespace

std::vector<std::vector<uint16_t>> train_pieces(const std::vector<SymbolWord>& words,
                                                int64_t merges) {
  std::vector<std::vector<uint16_t>> pieces;
  if (words.empty() || merges <= 0) return pieces;
  std::vector<bool> is_used(static_cast<size_t>(kMaxSymbols), false);
  int64_t used = 0;
  for (const SymbolWord& word : words) {
    for (uint16_t symbol : word.symbols) {
      used += !is_used[symbol];
      is_used[symbol] = true;
    }
  }
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", "bpe"},
      {"input_format", "tsv"},
      {"vocab_size", std::to_string(1 + used + merges)},  // 1: its own unknown piece
      {"hard_vocab_limit", "false"},
      {"character_coverage", "1.0"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"split_by_unicode_script", "false"},
      {"split_by_number", "false"},
      {"max_sentencepiece_length", "32"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"self_test_sample_size", "0"},
      {"num_threads", "1"},
      {"minloglevel", "2"},
  };
  WordLines lines(words);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  SNUG_CHECK(status.ok(), status.ToString());
  sentencepiece::SentencePieceProcessor reader;
  const auto loaded = reader.LoadFromSerializedProto(model);
  SNUG_CHECK(loaded.ok(), loaded.ToString());
  for (int id = 0; id < reader.GetPieceSize(); ++id) {
    if (!reader.IsUnknown(id) && !reader.IsControl(id)) {
      const std::string& text = reader.IdToPiece(id);
      std::vector<uint16_t> piece;
      for (size_t at = 0; at < text.size();) {
        const char32_t c = next_code_point(text, at);
        if (c < kFirstCodePoint || c >= kFirstCodePoint + kMaxSymbols) {
          piece.clear();  // the trainer's own mark
          break;
        }
        piece.push_back(static_cast<uint16_t>(c - kFirstCodePoint));
      }
      if (piece.size() >= 2 && static_cast<int64_t>(pieces.size()) < merges)
        pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace snug
