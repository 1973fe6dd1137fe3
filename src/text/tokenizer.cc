// SPDX-License-Identifier: Apache-2.0
// The tokenizer itself: added tokens, normalisation, words, ids, and what stands around them.
#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "io/file.h"
#include "io/sha256.h"
#include "snug/error.h"
#include "text/own_pipeline.h"

namespace snug::text {
namespace {

AddedPattern pattern_of(const AddedToken& token, std::string text) {
  return {std::move(text), token.id, token.single_word, token.lstrip, token.rstrip};
}

std::vector<AddedPattern> raw_patterns(const TokenizerSpec& spec) {
  std::vector<AddedPattern> patterns;
  for (const AddedToken& token : spec.added) {
    if (!token.normalized) patterns.push_back(pattern_of(token, token.content));
  }
  return patterns;
}

std::vector<AddedPattern> normalized_patterns(const TokenizerSpec& spec,
                                              const Normalizer& normalizer) {
  std::vector<AddedPattern> patterns;
  NormalizeScratch scratch;
  for (const AddedToken& token : spec.added) {
    if (!token.normalized) continue;
    std::string text(normalizer.apply(token.content, scratch).text);
    if (text.empty()) {
      throw Error(ErrorCode::unsupported, spec.where,
                  "the added token '" + token.content + "' is empty once normalised",
                  "give it \"normalized\": false");
    }
    patterns.push_back(pattern_of(token, std::move(text)));
  }
  return patterns;
}

/// How many ids of each text stay when both together may have `room`: the longer one is cut first.
void cut_longest_first(size_t room, size_t& a, size_t& b) {
  const bool is_swapped = a > b;
  size_t shorter = std::min(a, b);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  longer = std::min(longer, std::max(a, b));
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  a = is_swapped ? longer : shorter;
  b = is_swapped ? shorter : longer;
}

void check_room(int64_t max_length, int64_t around) {
  if (max_length >= around) return;
  throw Error(ErrorCode::bad_config, "max_seq_length",
              std::to_string(max_length) + " has no room for the " + std::to_string(around) +
                  " tokens around a text",
              "give at least " + std::to_string(around));
}

void fill(const std::vector<Template::Piece>& pieces, std::span<const int32_t> first,
          std::span<const int32_t> second, Encoding& encoding) {
  encoding.ids.clear();
  encoding.type_ids.clear();
  for (const Template::Piece& piece : pieces) {
    if (piece.kind == Template::Piece::Kind::token) {
      encoding.ids.push_back(piece.id);
    } else {
      const std::span<const int32_t> ids =
          piece.kind == Template::Piece::Kind::first ? first : second;
      encoding.ids.insert(encoding.ids.end(), ids.begin(), ids.end());
    }
    encoding.type_ids.resize(encoding.ids.size(), piece.type_id);
  }
}

// Leaves `kept` ids: all but the last ones, the first ones, or those in the middle.
void cut_ids(std::vector<int32_t>& ids, size_t kept, Truncation cut) {
  if (cut == Truncation::begin && kept < ids.size())
    std::copy(ids.end() - static_cast<std::ptrdiff_t>(kept), ids.end(), ids.begin());
  if (cut == Truncation::middle && kept < ids.size())
    std::copy_n(ids.end() - static_cast<std::ptrdiff_t>(kept / 2), kept / 2,
                ids.begin() + static_cast<std::ptrdiff_t>((kept + 1) / 2));
  ids.resize(kept);
}

// Where the id at `at` of `count` is after that; -1: nowhere.
int64_t place_after_cut(size_t at, size_t count, size_t kept, Truncation cut) {
  if (kept == count || (cut == Truncation::end && at < kept)) return static_cast<int64_t>(at);
  if (cut == Truncation::end) return -1;
  const size_t cut_off = count - kept;
  if (cut == Truncation::begin) return at < cut_off ? -1 : static_cast<int64_t>(at - cut_off);
  if (at < (kept + 1) / 2) return static_cast<int64_t>(at);
  return at >= count - kept / 2 ? static_cast<int64_t>(at - cut_off) : -1;
}

int32_t tokens_before(const std::vector<Template::Piece>& pieces) {
  const auto text = std::find_if(pieces.begin(), pieces.end(), [](const Template::Piece& piece) {
    return piece.kind == Template::Piece::Kind::first;
  });
  return static_cast<int32_t>(text - pieces.begin());
}

// Ids of a text in a window, and how far the next one's begin from this one's.
struct WindowStep {
  int64_t room = 0;
  int64_t step = 0;
};
WindowStep window_step(int64_t max_length, int64_t around, int64_t stride) {
  check_room(max_length, around);
  const int64_t room = max_length - around;
  if (room == 0) {
    throw Error(ErrorCode::bad_config, "max_seq_length",
                "a window of " + std::to_string(max_length) + " tokens holds the " +
                    std::to_string(around) + " around a text and none of the text",
                "give at least " + std::to_string(around + 1));
  }
  if (stride < room) return {.room = room, .step = room - stride};
  throw Error(ErrorCode::bad_config, "stride",
              std::to_string(stride) + " tokens are all that a window of max_seq_length " +
                  std::to_string(max_length) + " holds of a text (" + std::to_string(room) + ")",
              "give less than " + std::to_string(room));
}

int64_t count_windows(const WindowStep& window, size_t ids) {
  const int64_t rest = static_cast<int64_t>(ids) - window.room;
  return rest <= 0 ? 1 : 1 + (rest + window.step - 1) / window.step;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec)
    : spec_(std::make_unique<TokenizerSpec>(std::move(spec))),
      identity_(std::make_shared<const int>(0)) {
  spec_->vocabulary.shrink();
  spec_->added.shrink_to_fit();
  check_added_tokens(*spec_);
  pipeline_ = make_pipeline(*spec_);
  if (!spec_->has_type_ids) {
    for (Template::Piece& piece : pipeline_.around.pair) piece.type_id = 0;
    for (Template::Piece& piece : pipeline_.around.single) piece.type_id = 0;
  }
  find_roles();
  size_ = spec_->vocabulary.size();
  for (const AddedToken& token : spec_->added) size_ = std::max(size_, int64_t{token.id} + 1);
  raw_matcher_ = AddedTokenMatcher(raw_patterns(*spec_));
  normalized_matcher_ = AddedTokenMatcher(normalized_patterns(*spec_, pipeline_.normalizer));
}

/// Roles that the pipeline does not say are those that the files name, else BERT's or RoBERTa's
/// names where the vocabulary has them.
void Tokenizer::find_roles() {
  TokenRoles& roles = spec_->roles;
  const auto name = [&](int32_t id) { return id < 0 ? std::string() : std::string(token(id)); };
  const auto guess = [&](std::string& role, std::string_view bert, std::string_view roberta) {
    if (!role.empty()) return;
    if (spec_->find(bert) >= 0) {
      role = bert;
    } else if (spec_->find(roberta) >= 0) {
      role = roberta;
    }
  };
  if (unk_id() >= 0) roles.unk = name(unk_id());
  const std::vector<Template::Piece>& around = pipeline_.around.single;
  const auto is_token = [](const Template::Piece& piece) {
    return piece.kind == Template::Piece::Kind::token;
  };
  if (is_token(around.front())) roles.cls = name(around.front().id);
  if (is_token(around.back())) roles.sep = name(around.back().id);
  guess(roles.pad, "[PAD]", "<pad>");
  guess(roles.mask, "[MASK]", "<mask>");
  pad_ = spec_->find(roles.pad);
  mask_ = spec_->find(roles.mask);
  if (pad_ < 0) {
    throw Error(ErrorCode::bad_data, spec_->where,
                roles.pad.empty() ? "no pad token is named"
                                  : "the vocabulary has no pad token '" + roles.pad + "'",
                missing_role_hint("pad"));
  }
}

namespace {

// In the order of preference. The last is refused by name: a folder that has it has a tokenizer, so
// no vocabulary is learned in its place.
constexpr const char* kFiles[] = {"tokenizer.json", "vocab.txt",    "vocab.json",
                                  "spm.model",      "spiece.model", "sentencepiece.bpe.model",
                                  "tokenizer.model"};

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::string file = path.string();
  if (io::is_folder(file)) {
    const std::vector<std::string> files = files_in(path);
    if (files.empty()) {
      throw Error(ErrorCode::io, path.string(),
                  "the folder has neither tokenizer.json nor vocab.txt, vocab.json, spm.model, "
                  "spiece.model or sentencepiece.bpe.model",
                  "name a folder of a model, or a file of a tokenizer");
    }
    file = path / files.front();
  } else if (!io::file_exists(file)) {
    if (io::is_dangling(file)) io::throw_dangling(file);
    throw Error(ErrorCode::io, file, "there is no such file or folder",
                "check the path of the tokenizer");
  }
  const std::string folder = io::parent_folder(file);
  const TokenizerConfig config = read_tokenizer_config(folder + "/tokenizer_config.json");
  const std::string name = std::filesystem::path(file).filename();
  const bool is_bpe = name == "vocab.json" || name.ends_with("-vocab.json");
  const auto made = [&config](TokenizerSpec spec) {
    spec.has_type_ids = config.has_type_ids.value_or(true);
    return Tokenizer(std::move(spec));
  };
  if (file.ends_with(".json") && !is_bpe) return made(read_tokenizer_json(file, config));
  if (file.ends_with("spiece.model")) return made(read_albert(file, config));
  if (file.ends_with(".model")) return made(read_sentencepiece(file, config));
  return made(is_bpe ? read_bpe_files(file, folder + "/merges.txt", config)
                     : read_vocab_txt(file, config));
}

bool Tokenizer::is_in(const std::filesystem::path& folder) { return !files_in(folder).empty(); }

std::vector<std::string> Tokenizer::files_in(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const char* name : kFiles) {
    const std::string file = folder / name;
    // The first is read, and none in its place; the others are only named.
    if (files.empty() ? io::has_file(file) : io::file_exists(file)) files.emplace_back(name);
  }
  return files;
}

Tokenizer Tokenizer::from_tokens(const std::vector<std::string>& tokens,
                                 const BertNormalizerOptions& options) {
  return learned({.tokens = tokens, .scores = {}, .merges = {}, .normalizer = options});
}

Tokenizer Tokenizer::learned(LearnedVocabulary vocabulary) {
  TokenizerSpec spec;
  spec.where = "vocabulary";
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    add_vocabulary_token(spec, vocabulary.tokens[i], "token " + std::to_string(i));
  spec.scores = std::move(vocabulary.scores);
  spec.merges = std::move(vocabulary.merges);
  spec.roles = bert_roles();
  add_role_tokens(spec, spec.roles);
  set_pipeline(spec, vocabulary.kind, vocabulary.normalizer);
  return Tokenizer(std::move(spec));
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  EncodeScratch scratch;
  encode(text, ids, scratch);
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids,
                       EncodeScratch& scratch) const {
  check_utf8(text, "text");
  append(text, ids, scratch);
}

void Tokenizer::append(std::string_view text, std::vector<int32_t>& ids,
                       EncodeScratch& scratch) const {
  if (pipeline_.model->is_worth_caching()) scratch.cache.serve(identity_);
  const auto token = [&](int32_t id) { ids.push_back(id); };
  raw_matcher_.split(
      text,
      [&](std::string_view between) {
        const Normalizer::Result normal = pipeline_.normalizer.apply(between, scratch.normalized);
        const bool is_first = between.data() == text.data() && !normal.begins_elsewhere;
        const char* begin = normal.text.data();
        normalized_matcher_.split(
            normal.text,
            [&](std::string_view piece) {
              append_normalized({piece, is_first && piece.data() == begin}, ids, scratch);
            },
            token);
      },
      token);
}

void Tokenizer::append_normalized(const TextPiece& piece, std::vector<int32_t>& ids,
                                  EncodeScratch& scratch) const {
  auto take = [&](const TextPiece& word) { append_word(word.text, ids, scratch); };
  pipeline_.pre_tokenizer.split(piece, scratch.buffers, PieceSink(take));
}

void Tokenizer::append_word(std::string_view word, std::vector<int32_t>& ids,
                            EncodeScratch& scratch) const {
  const WordModel& model = *pipeline_.model;
  if (!model.is_worth_caching()) return model.append(word, ids, scratch.word);
  if (scratch.cache.append(word, ids)) return;
  const size_t begin = ids.size();
  model.append(word, ids, scratch.word);
  scratch.cache.keep(word, std::span(ids).subspan(begin));
}

Encoding Tokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                           int64_t max_length) const {
  Encoding encoding;
  EncodeScratch scratch;
  encode(text, pair, max_length, encoding, scratch);
  return encoding;
}

void Tokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                       int64_t max_length, Encoding& encoding, EncodeScratch& scratch,
                       Truncation cut) const {
  const std::vector<Template::Piece>& pieces =
      pair ? pipeline_.around.pair : pipeline_.around.single;
  const int64_t around = Template::around(pieces);
  check_room(max_length, around);
  check_utf8(text, "text");
  if (pair) check_utf8(*pair, "text pair");
  scratch.first.clear();
  scratch.second.clear();
  append(text, scratch.first, scratch);
  if (pair) append(*pair, scratch.second, scratch);

  size_t a = scratch.first.size();
  size_t b = scratch.second.size();
  encoding.untruncated_length = static_cast<int64_t>(a + b) + around;
  encoding.truncated = encoding.untruncated_length > max_length;
  const auto room = static_cast<size_t>(max_length - around);
  if (encoding.truncated && pair) {
    cut_longest_first(room, a, b);
  } else if (encoding.truncated) {
    a = room;
  }
  cut_ids(scratch.first, a, cut);
  cut_ids(scratch.second, b, cut);
  fill(pieces, scratch.first, scratch.second, encoding);
}

void Tokenizer::append_words(std::span<const std::string> words, std::vector<int32_t>& begins,
                             EncodeScratch& scratch) const {
  scratch.first.clear();
  begins.clear();
  for (const std::string& word : words) {
    check_utf8(word, "word");
    const size_t begin = scratch.first.size();
    append(word, scratch.first, scratch);
    begins.push_back(scratch.first.size() > begin ? static_cast<int32_t>(begin) : -1);
  }
}

void Tokenizer::encode_words(std::span<const std::string> words, int64_t max_length,
                             Encoding& encoding, std::vector<int32_t>& first_tokens,
                             EncodeScratch& scratch, Truncation cut) const {
  const std::vector<Template::Piece>& pieces = pipeline_.around.single;
  const int64_t around = Template::around(pieces);
  check_room(max_length, around);
  append_words(words, first_tokens, scratch);
  const size_t count = scratch.first.size();
  const size_t kept = std::min(count, static_cast<size_t>(max_length - around));
  encoding.untruncated_length = static_cast<int64_t>(count) + around;
  encoding.truncated = kept < count;
  for (int32_t& token : first_tokens) {
    if (token < 0) continue;
    const int64_t place = place_after_cut(static_cast<size_t>(token), count, kept, cut);
    token = place < 0 ? -1 : static_cast<int32_t>(place) + tokens_before(pieces);
  }
  cut_ids(scratch.first, kept, cut);
  fill(pieces, scratch.first, {}, encoding);
}

int64_t Tokenizer::begin_windows(std::string_view text, int64_t max_length, int64_t stride,
                                 EncodeScratch& scratch) const {
  const WindowStep window =
      window_step(max_length, Template::around(pipeline_.around.single), stride);
  check_utf8(text, "text");
  scratch.first.clear();
  scratch.word_begins.clear();
  append(text, scratch.first, scratch);
  return count_windows(window, scratch.first.size());
}

int64_t Tokenizer::begin_windows(std::span<const std::string> words, int64_t max_length,
                                 int64_t stride, EncodeScratch& scratch) const {
  const WindowStep window =
      window_step(max_length, Template::around(pipeline_.around.single), stride);
  append_words(words, scratch.word_begins, scratch);
  return count_windows(window, scratch.first.size());
}

void Tokenizer::window(int64_t index, int64_t max_length, int64_t stride,
                       const EncodeScratch& scratch, Encoding& encoding,
                       std::vector<int32_t>* first_tokens) const {
  const std::vector<Template::Piece>& pieces = pipeline_.around.single;
  const WindowStep window = window_step(max_length, Template::around(pieces), stride);
  const auto count = static_cast<int64_t>(scratch.first.size());
  const int64_t windows = count_windows(window, scratch.first.size());
  const int64_t begin = index * window.step;
  const int64_t end = std::min(begin + window.room, count);
  encoding.untruncated_length = end - begin + Template::around(pieces);
  encoding.truncated = false;
  fill(pieces,
       std::span(scratch.first)
           .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
       {}, encoding);
  if (first_tokens == nullptr) return;
  const auto shorter_side = [&](int64_t token, int64_t of) {
    const int64_t first = of * window.step;
    return std::min(token - first, std::min(first + window.room, count) - 1 - token);
  };
  first_tokens->clear();
  for (const int32_t token : scratch.word_begins) {
    bool is_own = token >= begin && token < end;
    const int64_t last = is_own ? std::min(windows - 1, token / window.step) : -1;
    for (int64_t other = last; is_own && other >= 0 && other * window.step + window.room > token;
         --other) {
      const int64_t difference = shorter_side(token, other) - shorter_side(token, index);
      is_own = other < index ? difference < 0 : difference <= 0;
    }
    first_tokens->push_back(is_own ? static_cast<int32_t>(token - begin) + tokens_before(pieces)
                                   : -1);
  }
}

bool Tokenizer::makes_lower_case() const {
  NormalizeScratch scratch;
  return pipeline_.normalizer.apply("A", scratch).text.find('A') == std::string_view::npos;
}

std::string_view Tokenizer::token(int64_t id) const {
  if (id >= 0 && id < spec_->vocabulary.size()) return spec_->vocabulary.token(id);
  for (const AddedToken& token : spec_->added) {
    if (token.id == id) return token.content;
  }
  throw Error(ErrorCode::bad_data, spec_->where,
              "there is no token with id " + std::to_string(id) + " among " + std::to_string(size_),
              "the ids were made with another vocabulary");
}

TextLimits Tokenizer::saved_limits(const std::filesystem::path& folder) {
  return read_tokenizer_config(folder.string() + "/tokenizer_config.json").limits;
}

void Tokenizer::save(const std::filesystem::path& folder, const TextLimits& limits,
                     bool has_type_ids) const {
  io::make_folders(folder.string());
  write_tokenizer_files(*spec_, folder.string(), limits, has_type_ids && spec_->has_type_ids);
}

int64_t Tokenizer::table_bytes() const {
  return static_cast<int64_t>(spec_->scores.capacity() * sizeof(double) +
                              spec_->merges.capacity() * sizeof(BpeMerge) +
                              spec_->pipeline.capacity() + spec_->model.capacity() +
                              (spec_->sentencepiece ? spec_->sentencepiece->file.capacity() +
                                                          spec_->sentencepiece->kinds.capacity()
                                                    : 0)) +
         pipeline_.normalizer.heap_bytes() + pipeline_.pre_tokenizer.heap_bytes() +
         pipeline_.model->heap_bytes();
}

int64_t Tokenizer::approximate_bytes() const {
  int64_t bytes = spec_->vocabulary.heap_bytes() + raw_matcher_.heap_bytes() +
                  normalized_matcher_.heap_bytes() + table_bytes();
  bytes += static_cast<int64_t>(spec_->added.capacity() * sizeof(AddedToken));
  const auto add = [&](const std::string& text) {
    if (text.capacity() > 15) bytes += static_cast<int64_t>(text.capacity()) + 1;
  };
  for (const AddedToken& token : spec_->added) add(token.content);
  const TokenRoles& roles = spec_->roles;
  for (const std::string* text : {&roles.pad, &roles.unk, &roles.cls, &roles.sep, &roles.mask})
    add(*text);
  add(spec_->where);
  return bytes;
}

std::string Tokenizer::fingerprint() const {
  io::Sha256 hash;
  const auto add = [&](const void* bytes, size_t size) {
    hash.update(bytes, static_cast<int64_t>(size));
  };
  for (int64_t id = 0; id < size_; ++id) {
    const std::string line = std::string(token(id)) + "\n";
    add(line.data(), line.size());
  }
  for (const AddedToken& one : spec_->added) {
    const std::string flags = std::to_string(one.id) + (one.single_word ? "w" : "-") +
                              (one.lstrip ? "l" : "-") + (one.rstrip ? "r" : "-") +
                              (one.normalized ? "n" : "-");
    add(flags.data(), flags.size());
  }
  add(spec_->scores.data(), spec_->scores.size() * sizeof(double));
  add(spec_->merges.data(), spec_->merges.size() * sizeof(BpeMerge));
  const std::string_view pipeline = spec_->pipeline;
  const std::string_view tokens = pipeline.substr(0, pipeline.rfind(",\"decoder\":"));
  add(tokens.data(), tokens.size());
  add(spec_->model.data(), spec_->model.size());
  if (spec_->sentencepiece)
    add(spec_->sentencepiece->file.data(), spec_->sentencepiece->file.size());
  return hash.finish();
}

}  // namespace snug::text
