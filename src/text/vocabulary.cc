// SPDX-License-Identifier: Apache-2.0
// Counting, choice of characters and words, and the way from symbols back to WordPiece.
#include "text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "snug/error.h"
#include "text/piece_trainer.h"

namespace snug {
namespace {

// These bounds make kVocabularyLearnerBytes: the trainer takes up to 240 bytes for each symbol of a
// training word.
constexpr int64_t kMaxCountedWords = 120'000;
constexpr int64_t kMaxCountedBytes = 3 << 20;
constexpr int64_t kMaxTrainingWords = 30'000;
constexpr int64_t kMaxTrainingSymbols = 140'000;
constexpr int64_t kMaxSingleSymbols = 70'000;  // beyond this, words seen once only cost time
constexpr int64_t kMaxWordCharacters =
    48;  // longer words are rarely words; their characters count all the same
constexpr size_t kChunkBytes = 16'384;  // a row is normalised in parts of this size
constexpr int64_t kMinVocabulary = 16;
constexpr int64_t kMaxVocabulary = 1 << 20;
constexpr size_t kCodePoints = 0x110000;

constexpr const char* kSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// Bytes of the first part of a row: up to the last space within a chunk, or to a whole code point.
size_t first_chunk(std::string_view text) {
  if (text.size() <= kChunkBytes) return text.size();
  const size_t space = text.rfind(' ', kChunkBytes - 1);
  if (space != std::string_view::npos) return space + 1;
  size_t end = kChunkBytes;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

bool is_always_a_word(char32_t c) { return is_punctuation(c) || is_ideograph(c); }

/// The characters of the vocabulary and their two forms as symbols: forms[2i] begins a word,
/// forms[2i + 1] does not.
struct Alphabet {
  std::vector<char32_t> characters;  ///< ascending
  [[nodiscard]] int64_t find(char32_t c) const {
    const auto place = std::lower_bound(characters.begin(), characters.end(), c);
    return place == characters.end() || *place != c ? -1 : place - characters.begin();
  }
};

Alphabet choose_alphabet(const std::vector<uint32_t>& counts, int64_t max_forms) {
  Alphabet alphabet;
  std::vector<char32_t> seen;
  for (size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) seen.push_back(static_cast<char32_t>(c));
  }
  std::sort(seen.begin(), seen.end(), [&](char32_t a, char32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  int64_t forms = 0;
  for (char32_t c : seen) {
    forms += is_always_a_word(c) ? 1 : 2;
    if (forms > max_forms || static_cast<int64_t>(alphabet.characters.size()) >= kMaxSymbols / 2)
      break;
    alphabet.characters.push_back(c);
  }
  std::sort(alphabet.characters.begin(), alphabet.characters.end());
  return alphabet;
}

std::vector<SymbolWord> choose_words(const WordCounts& counts, const Alphabet& alphabet) {
  std::vector<SymbolWord> words;
  int64_t symbols = 0;
  for (int32_t i : counts.by_count()) {
    SymbolWord word;
    word.count = counts.count(i);
    const std::string_view text = counts.word(i);
    for (size_t at = 0; at < text.size();) {
      const int64_t place = alphabet.find(next_code_point(text, at));
      if (place < 0) {  // a character too rare for the vocabulary: the word will be [UNK]
        word.symbols.clear();
        break;
      }
      word.symbols.push_back(static_cast<uint16_t>(2 * place + (word.symbols.empty() ? 0 : 1)));
    }
    if (word.symbols.empty()) continue;
    symbols += static_cast<int64_t>(word.symbols.size());
    const int64_t limit = word.count > 1 ? kMaxTrainingSymbols : kMaxSingleSymbols;
    if (symbols > limit || static_cast<int64_t>(words.size()) >= kMaxTrainingWords) break;
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

struct VocabularyLearner::State {
  explicit State(const VocabularyOptions& given)
      : options(given),
        normalizer(
            BertNormalizerOptions{.strip_accents = std::nullopt, .lowercase = given.lowercase}),
        words(kMaxCountedWords, kMaxCountedBytes, given.seed),
        characters(kCodePoints, 0) {}

  void count_word(std::string_view word) {
    int64_t length = 0;
    for (size_t at = 0; at < word.size(); ++length) ++characters[next_code_point(word, at)];
    if (length > 1 && length <= kMaxWordCharacters)
      words.add(word);  // one character has nothing to merge
  }
  void halve_rate() {
    words.halve();
    for (uint32_t& count : characters)
      count = (count + 1) / 2;  // rounded up: no character is forgotten
    ++rate_bits;
    counted_bytes /= 2;
  }

  VocabularyOptions options;
  BertNormalizer normalizer;
  BertNormalizer::Marks marks;
  std::string normalized;
  WordCounts words;
  std::vector<uint32_t> characters;  ///< how often each code point was seen
  uint64_t row = 0;
  int rate_bits = 0;  ///< one row of 2^rate_bits is counted
  int64_t counted_bytes = 0;
};

VocabularyLearner::VocabularyLearner(const VocabularyOptions& options) {
  if (options.vocab_size < kMinVocabulary || options.vocab_size > kMaxVocabulary) {
    throw Error(ErrorCode::bad_config, "vocab_size",
                std::to_string(options.vocab_size) + " is not between " +
                    std::to_string(kMinVocabulary) + " and " + std::to_string(kMaxVocabulary),
                "8192 suits small texts, 30522 is BERT's");
  }
  state_ = std::make_unique<State>(options);
}

VocabularyLearner::~VocabularyLearner() = default;
VocabularyLearner::VocabularyLearner(VocabularyLearner&&) noexcept = default;
VocabularyLearner& VocabularyLearner::operator=(VocabularyLearner&&) noexcept = default;

const BertNormalizerOptions& VocabularyLearner::normalizer_options() const {
  SNUG_CHECK(state_ != nullptr, "the learner has ended");
  return state_->normalizer.options();
}

void VocabularyLearner::add(std::string_view text) {
  SNUG_CHECK(state_ != nullptr, "the learner has ended");
  check_utf8(text, "text");
  State& state = *state_;
  const uint64_t draw = mix_bits(mix_bits(state.options.seed) ^ state.row++);
  while (!text.empty()) {
    if (draw >> (64 - std::max(state.rate_bits, 1)) != 0 && state.rate_bits > 0) return;
    const size_t size = first_chunk(text);
    state.normalized.clear();
    state.normalizer.normalize(text.substr(0, size), state.marks, state.normalized);
    for_each_word(state.normalized, [&](std::string_view word) { state.count_word(word); });
    text.remove_prefix(size);
    state.counted_bytes += static_cast<int64_t>(size);
    if (state.counted_bytes >= state.options.sample_bytes && state.rate_bits < 60)
      state.halve_rate();
  }
}

std::vector<std::string> VocabularyLearner::learn() {
  SNUG_CHECK(state_ != nullptr, "the learner has ended");
  const int64_t room = state_->options.vocab_size - static_cast<int64_t>(std::size(kSpecialTokens));
  const Alphabet alphabet = choose_alphabet(state_->characters, room - room / 4);
  if (alphabet.characters.empty()) {
    throw Error(ErrorCode::bad_data, "vocabulary",
                "the text has no characters to learn a vocabulary from",
                "check the text column of the training file");
  }
  std::vector<SymbolWord> words = choose_words(state_->words, alphabet);
  state_.reset();  // before training, which needs the room

  std::vector<std::string> tokens(std::begin(kSpecialTokens), std::end(kSpecialTokens));
  for (const bool continues : {false, true}) {
    for (char32_t c : alphabet.characters) {
      if (continues && is_always_a_word(c)) continue;
      tokens.emplace_back(continues ? "##" : "");
      append_utf8(c, tokens.back());
    }
  }
  const int64_t merges =
      room + static_cast<int64_t>(std::size(kSpecialTokens)) - static_cast<int64_t>(tokens.size());
  for (const std::vector<uint16_t>& piece : train_pieces(words, merges)) {
    tokens.emplace_back(piece.front() % 2 == 1 ? "##" : "");
    for (uint16_t symbol : piece) append_utf8(alphabet.characters[symbol / 2u], tokens.back());
  }
  return tokens;
}

}  // namespace snug
