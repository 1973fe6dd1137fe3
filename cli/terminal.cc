// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace snug::cli {
namespace {

constexpr int kUsualColumns = 80;

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

int width_of(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character));
}

// Where continuations of a line stand: below what follows its first gap of two spaces or more, if
// that leaves room.
int indent_of(const std::string& line, int columns) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return 0;
  const size_t gap = line.find("  ", first);
  const size_t behind = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  if (behind != std::string::npos && static_cast<int>(behind) <= columns / 2)
    return static_cast<int>(behind);
  return std::min(static_cast<int>(first) + 2, columns / 2);
}

void append_wrapped(const std::string& line, int columns, std::string& out) {
  const int indent = indent_of(line, columns);
  int used = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    const size_t end = std::min(line.find(' ', begin), line.size());
    const std::string word = line.substr(begin, end - begin);
    const int spaces = static_cast<int>(begin - at);
    if (used > 0 && used + spaces + width_of(word) > columns) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = indent;
    } else {
      out.append(static_cast<size_t>(spaces), ' ');
      used += spaces;
    }
    out += word;
    used += width_of(word);
    at = end;
  }
}

}  // namespace

int terminal_columns(int descriptor) {
  if (isatty(descriptor) == 0) return 0;
  winsize size = {};
  const bool is_known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsualColumns;
}

std::string wrapped(const std::string& text, int columns) {
  if (columns <= 0) return text;
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (width_of(line) <= columns) {
      out += line;
    } else {
      append_wrapped(line, columns, out);
    }
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

std::string fitted(const std::vector<std::string>& fields, int columns) {
  std::string out;
  for (const std::string& field : fields) {
    if (field.empty()) continue;
    const std::string next = out + (out.empty() ? "" : "  ") + field;
    if (columns > 0 && !out.empty() && width_of(next) > columns) break;
    out = next;
  }
  return out;
}

std::string shortened(const std::string& text, int columns) {
  if (width_of(text) <= columns) return text;
  const int kept = std::max(columns - 1, 0);
  const int head = kept / 3;
  std::string out;
  int at = 0;
  const int tail_begin = width_of(text) - (kept - head);
  for (const char byte : text) {
    at += begins_character(byte) ? 1 : 0;
    if (at <= head || at > tail_begin) {
      out += byte;
    } else if (at == head + 1 && begins_character(byte)) {
      out += "…";
    }
  }
  return out;
}

void print(const std::string& text, bool is_exact) {
  std::cout << wrapped(text, is_exact ? 0 : terminal_columns(STDOUT_FILENO));
}

}  // namespace snug::cli
