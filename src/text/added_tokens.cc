// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>
#include <span>
#include <utility>

namespace snug::text {
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

std::vector<std::string_view> texts_of(const std::vector<AddedPattern>& patterns) {
  std::vector<std::string_view> texts;
  texts.reserve(patterns.size());
  for (const AddedPattern& pattern : patterns) texts.push_back(pattern.text);
  return texts;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedPattern> patterns)
    : patterns_(std::move(patterns)), finder_(texts_of(patterns_)) {
  patterns_.shrink_to_fit();
}

const AddedPattern* AddedTokenMatcher::longest_at(Search& search) const {
  if (search.from >= search.window_end) {
    search.window = search.from;
    search.window_end = std::min(search.from + kWindow, search.text.size());
    finder_.find(search.text, search.window,
                 std::span(search.longest).first(search.window_end - search.window));
  }
  const int32_t pattern = search.longest[search.from - search.window];
  return pattern < 0 ? nullptr : &patterns_[pattern];
}

bool AddedTokenMatcher::next(Search& search, size_t done, Match& match) const {
  const std::string_view text = search.text;
  if (patterns_.empty()) return false;
  while (search.from < text.size()) {
    const AddedPattern* found = longest_at(search);
    if (found == nullptr) {
      ++search.from;
      continue;
    }
    match = {search.from, search.from + found->text.size(), found->id};
    search.from = match.end;  // a refused match is not tried again with a shorter pattern
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
  auto bytes =
      static_cast<int64_t>(patterns_.capacity() * sizeof(AddedPattern)) + finder_.heap_bytes();
  for (const AddedPattern& pattern : patterns_) {
    if (pattern.text.capacity() > 15) bytes += static_cast<int64_t>(pattern.text.capacity()) + 1;
  }
  return bytes;
}

}  // namespace snug::text
