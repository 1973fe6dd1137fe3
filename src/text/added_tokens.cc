// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

namespace snug {
namespace {

/// Begin of the code point that ends at text[end).
size_t code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t at = code_point_before(text, begin);
    if (is_word_character(next_code_point(text, at))) return false;
  }
  if (end < text.size() && is_word_character(next_code_point(text, end))) return false;
  return true;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string_view pattern) {
  const auto key = [](std::string_view text) { return static_cast<unsigned char>(text.front()); };
  for (const Pattern& other : patterns_) {
    if (other.text == pattern) return;
  }
  const auto place = std::find_if(patterns_.begin(), patterns_.end(), [&](const Pattern& other) {
    if (key(other.text) != key(pattern)) return key(other.text) > key(pattern);
    return other.text.size() < pattern.size();
  });
  patterns_.insert(place,
                   {std::string(pattern), token.id, token.single_word, token.lstrip, token.rstrip});
  for (size_t b = key(pattern) + 1u; b < first_.size(); ++b) ++first_[b];
}

const AddedTokenMatcher::Pattern* AddedTokenMatcher::longest_at(std::string_view text) const {
  const auto b = static_cast<unsigned char>(text.front());
  for (size_t i = first_[b]; i < first_[b + 1u]; ++i) {
    if (text.starts_with(patterns_[i].text)) return &patterns_[i];
  }
  return nullptr;
}

bool AddedTokenMatcher::next(std::string_view text, size_t& from, size_t done, Match& match) const {
  if (patterns_.empty()) return false;
  while (from < text.size()) {
    const Pattern* found = longest_at(text.substr(from));
    if (found == nullptr) {
      ++from;
      continue;
    }
    match = {from, from + found->text.size(), found->id};
    from = match.end;  // a refused match is not tried again with a shorter pattern
    if (found->single_word && !stands_alone(text, match.begin, match.end)) continue;
    if (found->lstrip) {
      while (match.begin > done) {
        const size_t before = code_point_before(text, match.begin);
        size_t at = before;
        if (before < done || !is_whitespace(next_code_point(text, at))) break;
        match.begin = before;
      }
    }
    while (found->rstrip && match.end < text.size()) {
      size_t at = match.end;
      if (!is_whitespace(next_code_point(text, at))) break;
      match.end = at;
    }
    return true;
  }
  return false;
}

int64_t AddedTokenMatcher::heap_bytes() const {
  auto bytes = static_cast<int64_t>(patterns_.capacity() * sizeof(Pattern));
  for (const Pattern& pattern : patterns_) {
    if (pattern.text.capacity() > 15) bytes += static_cast<int64_t>(pattern.text.capacity()) + 1;
  }
  return bytes;
}

}  // namespace snug
