// SPDX-License-Identifier: Apache-2.0
// The tokenizer itself: added tokens, normalisation, words, then the longest piece first.
#include "text/wordpiece.h"

#include <algorithm>
#include <limits>

#include "io/file.h"
#include "snug/error.h"

namespace snug {
namespace {

int32_t role_id(const WordPieceSpec& spec, const char* role, const std::string& name) {
  const int32_t id = spec.vocabulary.find(name);
  if (id < 0) {
    throw Error(ErrorCode::bad_data, spec.where,
                std::string("the vocabulary has no ") + role + " token '" + name + "'",
                std::string("add it, or name it as ") + role + "_token in tokenizer_config.json");
  }
  return id;
}

AddedPattern pattern_of(const AddedToken& token, std::string text) {
  return {std::move(text), token.id, token.single_word, token.lstrip, token.rstrip};
}

std::vector<AddedPattern> raw_patterns(const WordPieceSpec& spec) {
  std::vector<AddedPattern> patterns;
  for (const AddedToken& token : spec.added) {
    if (!token.normalized) patterns.push_back(pattern_of(token, token.content));
  }
  return patterns;
}

std::vector<AddedPattern> normalized_patterns(const WordPieceSpec& spec,
                                              const BertNormalizer& normalizer) {
  std::vector<AddedPattern> patterns;
  BertNormalizer::Marks marks;
  for (const AddedToken& token : spec.added) {
    if (!token.normalized) continue;
    std::string text;
    normalizer.normalize(token.content, marks, text);
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

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(WordPieceSpec spec)
    : spec_(std::move(spec)), normalizer_(spec_.normalizer) {
  spec_.vocabulary.shrink();
  spec_.added.shrink_to_fit();
  unk_ = role_id(spec_, "unk", spec_.roles.unk);
  cls_ = role_id(spec_, "cls", spec_.roles.cls);
  sep_ = role_id(spec_, "sep", spec_.roles.sep);
  pad_ = role_id(spec_, "pad", spec_.roles.pad);
  mask_ = spec_.vocabulary.find(spec_.roles.mask);
  prefix_hash_ = TokenTable::hash_more(TokenTable::kHashSeed, spec_.prefix);
  size_ = spec_.vocabulary.size();
  for (const AddedToken& token : spec_.added) size_ = std::max(size_, int64_t{token.id} + 1);
  check_added_tokens(spec_);
  raw_matcher_ = AddedTokenMatcher(raw_patterns(spec_));
  normalized_matcher_ = AddedTokenMatcher(normalized_patterns(spec_, normalizer_));
}

WordPieceTokenizer WordPieceTokenizer::load(const std::filesystem::path& path) {
  std::string file = path.string();
  if (io::is_folder(file)) {
    file = path / "tokenizer.json";
    if (!io::file_exists(file)) file = path / "vocab.txt";
    if (!io::file_exists(file)) {
      throw Error(ErrorCode::io, path.string(),
                  "the folder has neither tokenizer.json nor vocab.txt",
                  "name a folder of a BERT model, a vocab.txt or a tokenizer.json");
    }
  } else if (!io::file_exists(file)) {
    throw Error(ErrorCode::io, file, "there is no such file or folder",
                "check the path of the tokenizer");
  }
  const std::string folder = io::parent_folder(file);
  const TokenizerConfig config = read_tokenizer_config(folder + "/tokenizer_config.json");
  if (file.ends_with(".json")) return WordPieceTokenizer(read_tokenizer_json(file, config));
  if (io::file_exists(folder + "/added_tokens.json")) {
    throw Error(ErrorCode::unsupported, folder, "added_tokens.json is not supported",
                "save the tokenizer again with transformers, which writes tokenizer.json");
  }
  return WordPieceTokenizer(read_vocab_txt(file, config));
}

WordPieceTokenizer WordPieceTokenizer::from_tokens(const std::vector<std::string>& tokens,
                                                   const BertNormalizerOptions& options) {
  WordPieceSpec spec;
  spec.where = "vocabulary";
  spec.normalizer = options;
  for (size_t i = 0; i < tokens.size(); ++i)
    add_vocabulary_token(spec, tokens[i], "token " + std::to_string(i));
  add_role_tokens(spec);
  return WordPieceTokenizer(std::move(spec));
}

void WordPieceTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  EncodeScratch scratch;
  encode(text, ids, scratch);
}

void WordPieceTokenizer::encode(std::string_view text, std::vector<int32_t>& ids,
                                EncodeScratch& scratch) const {
  check_utf8(text, "text");
  append(text, ids, scratch);
}

void WordPieceTokenizer::append(std::string_view text, std::vector<int32_t>& ids,
                                EncodeScratch& scratch) const {
  const auto token = [&](int32_t id) { ids.push_back(id); };
  raw_matcher_.split(
      text,
      [&](std::string_view between) {
        scratch.normalized.clear();
        normalizer_.normalize(between, scratch.marks, scratch.normalized);
        if (normalized_matcher_.empty()) return append_words(scratch.normalized, ids, scratch);
        normalized_matcher_.split(
            scratch.normalized, [&](std::string_view piece) { append_words(piece, ids, scratch); },
            token);
      },
      token);
}

void WordPieceTokenizer::append_words(std::string_view normalized, std::vector<int32_t>& ids,
                                      EncodeScratch& scratch) const {
  for_each_word(normalized, [&](std::string_view word) { append_pieces(word, ids, scratch); });
}

void WordPieceTokenizer::append_pieces(std::string_view word, std::vector<int32_t>& ids,
                                       EncodeScratch& scratch) const {
  const auto longest = static_cast<uint64_t>(spec_.max_input_chars_per_word);
  if (word.size() > longest && static_cast<uint64_t>(count_code_points(word)) > longest)
    return ids.push_back(unk_);
  const TokenTable& table = spec_.vocabulary;
  auto& boundaries = scratch.boundaries;
  const size_t first = ids.size();
  size_t begin = 0;
  while (begin < word.size()) {
    // The hash at every end of a code point, in one pass; then the table is asked from the longest
    // piece down.
    const std::string_view prefix =
        begin == 0 ? std::string_view() : std::string_view(spec_.prefix);
    uint64_t hash = begin == 0 ? TokenTable::kHashSeed : prefix_hash_;
    const size_t limit = std::min(word.size(), begin + table.longest_bytes());
    boundaries.clear();
    for (size_t at = begin; at < limit;) {
      hash = TokenTable::hash_more(hash, static_cast<unsigned char>(word[at]));
      ++at;
      const bool is_end =
          at == word.size() || (static_cast<unsigned char>(word[at]) & 0xC0) != 0x80;
      if (is_end) boundaries.push_back({hash, at});
    }
    int32_t id = -1;
    for (size_t i = boundaries.size(); i-- > 0 && id < 0;) {
      const size_t end = boundaries[i].end;
      id = table.find(boundaries[i].hash, prefix, word.substr(begin, end - begin));
      if (id >= 0) begin = end;
    }
    if (id < 0) {  // one character without a piece makes the whole word unknown
      ids.resize(first);
      ids.push_back(unk_);
      return;
    }
    ids.push_back(id);
  }
}

Encoding WordPieceTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                    int64_t max_length) const {
  Encoding encoding;
  EncodeScratch scratch;
  encode(text, pair, max_length, encoding, scratch);
  return encoding;
}

void WordPieceTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                int64_t max_length, Encoding& encoding,
                                EncodeScratch& scratch) const {
  const int64_t around = pair ? 3 : 2;
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
  encoding.ids.clear();
  encoding.ids.push_back(cls_);
  encoding.ids.insert(encoding.ids.end(), scratch.first.begin(),
                      scratch.first.begin() + static_cast<std::ptrdiff_t>(a));
  encoding.ids.push_back(sep_);
  encoding.type_ids.assign(encoding.ids.size(), 0);
  if (!pair) return;
  encoding.ids.insert(encoding.ids.end(), scratch.second.begin(),
                      scratch.second.begin() + static_cast<std::ptrdiff_t>(b));
  encoding.ids.push_back(sep_);
  encoding.type_ids.resize(encoding.ids.size(), 1);
}

void WordPieceTokenizer::encode_words(std::span<const std::string> words, int64_t max_length,
                                      Encoding& encoding, std::vector<int32_t>& first_tokens,
                                      EncodeScratch& scratch) const {
  constexpr int64_t kAround = 2;
  check_room(max_length, kAround);
  scratch.first.clear();
  first_tokens.clear();
  const auto room = static_cast<size_t>(max_length - kAround);
  for (const std::string& word : words) {
    check_utf8(word, "word");
    const size_t begin = scratch.first.size();
    append(word, scratch.first, scratch);
    const bool is_there = scratch.first.size() > begin && begin < room;
    first_tokens.push_back(is_there ? static_cast<int32_t>(begin) + 1 : -1);
  }
  const size_t kept = std::min(scratch.first.size(), room);
  encoding.untruncated_length = static_cast<int64_t>(scratch.first.size()) + kAround;
  encoding.truncated = kept < scratch.first.size();
  encoding.ids.assign(1, cls_);
  encoding.ids.insert(encoding.ids.end(), scratch.first.begin(),
                      scratch.first.begin() + static_cast<std::ptrdiff_t>(kept));
  encoding.ids.push_back(sep_);
  encoding.type_ids.assign(encoding.ids.size(), 0);
}

std::string_view WordPieceTokenizer::token(int64_t id) const {
  if (id >= 0 && id < spec_.vocabulary.size()) return spec_.vocabulary.token(id);
  for (const AddedToken& token : spec_.added) {
    if (token.id == id) return token.content;
  }
  throw Error(ErrorCode::bad_data, spec_.where,
              "there is no token with id " + std::to_string(id) + " among " + std::to_string(size_),
              "the ids were made with another vocabulary");
}

std::optional<int64_t> WordPieceTokenizer::saved_max_length(const std::filesystem::path& folder) {
  return read_tokenizer_config(folder.string() + "/tokenizer_config.json").model_max_length;
}

void WordPieceTokenizer::save(const std::filesystem::path& folder, int64_t model_max_length,
                              bool has_type_ids) const {
  io::make_folders(folder.string());
  write_tokenizer_files(spec_, folder.string(), model_max_length, has_type_ids);
}

int64_t WordPieceTokenizer::approximate_bytes() const {
  int64_t bytes =
      spec_.vocabulary.heap_bytes() + raw_matcher_.heap_bytes() + normalized_matcher_.heap_bytes();
  bytes += static_cast<int64_t>(spec_.added.capacity() * sizeof(AddedToken));
  const auto add = [&](const std::string& text) {
    if (text.capacity() > 15) bytes += static_cast<int64_t>(text.capacity()) + 1;
  };
  for (const AddedToken& token : spec_.added) add(token.content);
  const TokenRoles& roles = spec_.roles;
  for (const std::string* text :
       {&roles.pad, &roles.unk, &roles.cls, &roles.sep, &roles.mask, &spec_.prefix, &spec_.where}) {
    add(*text);
  }
  return bytes;
}

}  // namespace snug
