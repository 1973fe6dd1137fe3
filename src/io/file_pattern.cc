// SPDX-License-Identifier: Apache-2.0
#include "io/file_pattern.h"

#include <algorithm>
#include <optional>

#include "io/file.h"

namespace snug::io {
namespace {

struct Bracket {
  bool holds = false;
  size_t end = 0;  // behind it
};

/// Reads the pattern's bracket at `begin`; nothing where it is not closed, and so a plain byte.
std::optional<Bracket> read_bracket(std::string_view pattern, size_t begin, char byte) {
  size_t at = begin + 1;
  const bool is_negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  at += is_negated ? 1 : 0;
  const auto value = static_cast<unsigned char>(byte);
  bool holds = false;
  for (const size_t first = at; at < pattern.size(); ++at) {
    if (pattern[at] == ']' && at > first) return Bracket{holds != is_negated, at + 1};
    const auto low = static_cast<unsigned char>(pattern[at]);
    auto high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      high = static_cast<unsigned char>(pattern[at + 2]);
      at += 2;
    }
    holds = holds || (low <= value && value <= high);
  }
  return std::nullopt;
}

/// Behind the pattern's first element, where it takes this byte; nothing where it does not.
std::optional<size_t> take_byte_of(std::string_view pattern, size_t at, char byte) {
  if (pattern[at] == '[') {
    if (const auto bracket = read_bracket(pattern, at, byte)) {
      if (!bracket->holds) return std::nullopt;
      return bracket->end;
    }
  }
  if (pattern[at] != '?' && pattern[at] != byte) return std::nullopt;
  return at + 1;
}

std::vector<std::string> paths_like(const std::string& root, std::string_view rest) {
  const size_t slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  const bool is_last = slash == std::string_view::npos;
  if (is_last && segment.empty()) return {};
  if (!is_last && !has_wildcard(segment))
    return paths_like(root + std::string(rest.substr(0, slash + 1)), rest.substr(slash + 1));
  std::vector<std::string> found;
  if (!root.empty() && !is_folder(root)) return found;
  for (const std::string& name : list_folder(root.empty() ? "." : root)) {
    if (!matches_pattern(name, segment)) continue;
    if (is_last) {
      if (file_exists(root + name)) found.push_back(root + name);
    } else if (is_folder(root + name)) {
      const std::vector<std::string> below = paths_like(root + name + "/", rest.substr(slash + 1));
      found.insert(found.end(), below.begin(), below.end());
    }
  }
  return found;
}

}  // namespace

bool has_wildcard(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

// Goes back to the last star only: no pattern takes more than the product of the two lengths.
bool matches_pattern(std::string_view name, std::string_view pattern) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  size_t at = 0;
  size_t byte = 0;
  std::optional<size_t> behind_star;
  size_t taken_by_star = 0;
  while (byte < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      behind_star = ++at;
      taken_by_star = byte;
      continue;
    }
    const auto next = at < pattern.size() ? take_byte_of(pattern, at, name[byte]) : std::nullopt;
    if (next) {
      at = *next;
      ++byte;
    } else if (behind_star) {
      at = *behind_star;
      byte = ++taken_by_star;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

std::vector<std::string> files_like(const std::string& pattern) {
  std::vector<std::string> files = paths_like({}, pattern);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace snug::io
