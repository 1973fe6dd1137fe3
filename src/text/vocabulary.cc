// SPDX-License-Identifier: Apache-2.0
// Counting, choice of characters and words, and the way from symbols back to tokens.
#include "text/vocabulary.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/mix_bits.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/byte_alphabet.h"
#include "text/growing_merges.h"
#include "text/normalizer.h"
#include "text/own_pipeline.h"
#include "text/piece_trainer.h"
#include "text/pre_tokenizer.h"
#include "text/unicode_rules.h"
#include "text/word_counts.h"

namespace snug::text {
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
constexpr unsigned kBytes = 256;
constexpr const char* kWhere = "vocabulary";

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

/// Characters as symbols: WordPiece has two forms of each, 2i begins a word, 2i + 1 does not; the
/// other kinds have one.
struct Alphabet {
  bool has_two_forms = false;
  std::vector<char32_t> characters;  ///< ascending

  [[nodiscard]] int64_t find(char32_t c) const {
    const auto place = std::lower_bound(characters.begin(), characters.end(), c);
    return place == characters.end() || *place != c ? -1 : place - characters.begin();
  }
  [[nodiscard]] uint16_t symbol(int64_t place, bool begins) const {
    return static_cast<uint16_t>(has_two_forms ? 2 * place + (begins ? 0 : 1) : place);
  }
  [[nodiscard]] bool continues(uint16_t symbol) const { return has_two_forms && symbol % 2 == 1; }
  void append(uint16_t symbol, std::string& text) const {
    append_utf8(characters[has_two_forms ? symbol / 2u : symbol], text);
  }
  [[nodiscard]] std::string text(std::span<const uint16_t> symbols) const {
    std::string text = continues(symbols.front()) ? "##" : "";
    for (uint16_t symbol : symbols) append(symbol, text);
    return text;
  }
};

Alphabet bytes_alphabet() {
  Alphabet alphabet;
  for (unsigned byte = 0; byte < kBytes; ++byte)
    alphabet.characters.push_back(byte_character(static_cast<unsigned char>(byte)));
  std::sort(alphabet.characters.begin(), alphabet.characters.end());
  return alphabet;
}

Alphabet choose_alphabet(const std::vector<uint32_t>& counts, bool has_two_forms,
                         int64_t max_forms) {
  Alphabet alphabet{.has_two_forms = has_two_forms, .characters = {}};
  std::vector<char32_t> seen;
  for (size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) seen.push_back(static_cast<char32_t>(c));
  }
  std::sort(seen.begin(), seen.end(), [&](char32_t a, char32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  const int64_t most = kMaxSymbols / (has_two_forms ? 2 : 1);
  int64_t forms = 0;
  for (char32_t c : seen) {
    forms += !has_two_forms || is_always_a_word(c) ? 1 : 2;
    if (forms > max_forms || std::ssize(alphabet.characters) >= most) break;
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
      word.symbols.push_back(alphabet.symbol(place, word.symbols.empty()));
    }
    if (word.symbols.empty()) continue;
    symbols += static_cast<int64_t>(word.symbols.size());
    const int64_t limit = word.count > 1 ? kMaxTrainingSymbols : kMaxSingleSymbols;
    if (symbols > limit || static_cast<int64_t>(words.size()) >= kMaxTrainingWords) break;
    words.push_back(std::move(word));
  }
  return words;
}

void add_wordpieces(const std::vector<SymbolWord>& words, const Alphabet& alphabet, int64_t room,
                    LearnedVocabulary& out) {
  const auto size = static_cast<size_t>(room) + out.tokens.size();
  for (const bool continues : {false, true}) {
    for (char32_t c : alphabet.characters) {
      if (continues && is_always_a_word(c)) continue;
      out.tokens.emplace_back(continues ? "##" : "");
      append_utf8(c, out.tokens.back());
    }
  }
  const auto merges = static_cast<int64_t>(size - out.tokens.size());
  for (const std::vector<uint16_t>& piece : train_pieces(words, merges))
    out.tokens.push_back(alphabet.text(piece));
}

/// The merges that make each piece are those that make it of its own bytes.
void add_byte_pairs(const std::vector<SymbolWord>& words, const Alphabet& alphabet, int64_t room,
                    LearnedVocabulary& out) {
  const auto first = static_cast<int32_t>(out.tokens.size());
  for (char32_t c : alphabet.characters) append_utf8(c, out.tokens.emplace_back());
  GrowingMerges merges;
  for (const std::vector<uint16_t>& piece :
       train_pieces(words, room - std::ssize(alphabet.characters))) {
    std::vector<int32_t> ids;
    for (uint16_t symbol : piece) ids.push_back(first + symbol);
    merges.apply(ids);
    if (ids.size() != 2) continue;  // what merges do not make would be an id that no text has
    merges.add({ids[0], ids[1], static_cast<int32_t>(out.tokens.size())});
    out.tokens.push_back(alphabet.text(piece));
  }
  out.merges = merges.take();
}

/// Characters that stand in no word for training are as rare as the rarest piece.
void add_scored_pieces(const std::vector<SymbolWord>& words, const Alphabet& alphabet, int64_t room,
                       LearnedVocabulary& out) {
  std::vector<bool> is_in_words(alphabet.characters.size(), false);
  for (const SymbolWord& word : words) {
    for (uint16_t symbol : word.symbols) is_in_words[symbol] = true;
  }
  const int64_t alone = std::count(is_in_words.begin(), is_in_words.end(), false);
  out.scores.assign(out.tokens.size(), 0.0);  // the package's score of special tokens
  double least = 0;
  for (const ScoredPiece& piece : train_unigram(words, room - alone)) {
    out.tokens.push_back(alphabet.text(piece.symbols));
    out.scores.push_back(piece.score);
    least = std::min(least, piece.score);
  }
  for (size_t place = 0; place < is_in_words.size(); ++place) {
    if (is_in_words[place]) continue;
    append_utf8(alphabet.characters[place], out.tokens.emplace_back());
    out.scores.push_back(least);
  }
}

}  // namespace

struct VocabularyLearner::State {
  explicit State(const VocabularyOptions& given)
      : options(given),
        words(kMaxCountedWords, kMaxCountedBytes, given.seed),
        characters(kCodePoints, 0) {
    const WordSteps steps = word_steps(given.kind, bert_options());
    normalizer = read_normalizer(io::parse_json(steps.normalizer, kWhere), kWhere);
    pre_tokenizer = read_pre_tokenizer(io::parse_json(steps.pre_tokenizer, kWhere), kWhere);
  }

  [[nodiscard]] BertNormalizerOptions bert_options() const {
    return {.strip_accents = std::nullopt, .lowercase = options.lowercase};
  }
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
  Normalizer normalizer;
  NormalizeScratch scratch;
  PreTokenizer pre_tokenizer;
  std::vector<StepBuffers> buffers;
  WordCounts words;
  std::vector<uint32_t> characters;  ///< how often each code point was seen
  uint64_t row = 0;
  int rate_bits = 0;  ///< one row of 2^rate_bits is counted
  int64_t counted_bytes = 0;
};

VocabularyLearner::VocabularyLearner(const VocabularyOptions& options) {
  const bool is_bpe = options.kind == TokenizerKind::bpe;
  const int64_t least = is_bpe ? std::ssize(kSpecialTokens) + int64_t{kBytes} : kMinVocabulary;
  if (options.vocab_size < least || options.vocab_size > kMaxVocabulary) {
    throw Error(ErrorCode::bad_config, "vocab_size",
                std::to_string(options.vocab_size) + " is not between " + std::to_string(least) +
                    (is_bpe ? " (the special tokens and the bytes)" : "") + " and " +
                    std::to_string(kMaxVocabulary),
                "8192 suits small texts, 30522 is BERT's");
  }
  state_ = std::make_unique<State>(options);
}

VocabularyLearner::~VocabularyLearner() = default;
VocabularyLearner::VocabularyLearner(VocabularyLearner&&) noexcept = default;
VocabularyLearner& VocabularyLearner::operator=(VocabularyLearner&&) noexcept = default;

void VocabularyLearner::add(std::string_view text) {
  SNUG_CHECK(state_ != nullptr, "the learner has ended");
  check_utf8(text, "text");
  State& state = *state_;
  const uint64_t draw = mix_bits(mix_bits(state.options.seed) ^ state.row++);
  while (!text.empty()) {
    if (draw >> (64 - std::max(state.rate_bits, 1)) != 0 && state.rate_bits > 0) return;
    const size_t size = first_chunk(text);
    auto count = [&](const TextPiece& word) { state.count_word(word.text); };
    const Normalizer::Result normal = state.normalizer.apply(text.substr(0, size), state.scratch);
    state.pre_tokenizer.split({normal.text, true}, state.buffers, PieceSink(count));
    text.remove_prefix(size);
    state.counted_bytes += static_cast<int64_t>(size);
    if (state.counted_bytes >= state.options.sample_bytes && state.rate_bits < 60)
      state.halve_rate();
  }
}

LearnedVocabulary VocabularyLearner::learn() {
  SNUG_CHECK(state_ != nullptr, "the learner has ended");
  LearnedVocabulary out;
  out.kind = state_->options.kind;
  out.tokens.assign(std::begin(kSpecialTokens), std::end(kSpecialTokens));
  out.normalizer = state_->bert_options();
  const int64_t room = state_->options.vocab_size - std::ssize(out.tokens);
  const bool is_wordpiece = out.kind == TokenizerKind::wordpiece;
  Alphabet alphabet = choose_alphabet(state_->characters, is_wordpiece, room - room / 4);
  if (alphabet.characters.empty()) {
    throw Error(ErrorCode::bad_data, "vocabulary",
                "the text has no characters to learn a vocabulary from",
                "check the text column of the training file");
  }
  if (out.kind == TokenizerKind::bpe) alphabet = bytes_alphabet();
  const std::vector<SymbolWord> words = choose_words(state_->words, alphabet);
  state_.reset();  // before training, which needs the room
  const auto add = is_wordpiece                     ? add_wordpieces
                   : out.kind == TokenizerKind::bpe ? add_byte_pairs
                                                    : add_scored_pieces;
  add(words, alphabet, room, out);
  return out;
}

}  // namespace snug::text
