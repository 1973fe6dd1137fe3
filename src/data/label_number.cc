// SPDX-License-Identifier: Apache-2.0
#include "data/label_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/numbers.h"

namespace snug::data {
namespace {

constexpr size_t kMostNumbers = 8;
constexpr std::string_view kDigits = "0123456789";

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

std::optional<double> spelled_number(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::optional<double> value = number_in<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::vector<double> numbers_within(std::string_view text) {
  std::vector<double> numbers;
  for (size_t at = 0; numbers.size() < kMostNumbers;) {
    const size_t begin = text.find_first_of(kDigits, at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find_first_not_of(kDigits, begin), text.size());
    const size_t fraction = at + 1;
    if (fraction < text.size() && text[at] == '.' &&
        kDigits.find(text[fraction]) != std::string_view::npos)
      at = std::min(text.find_first_not_of(kDigits, fraction), text.size());
    if (const auto value = spelled_number(text.substr(begin, at - begin)))
      numbers.push_back(*value);
  }
  return numbers;
}

bool says_missing(std::string_view text) {
  constexpr std::array<std::string_view, 14> kWords = {
      "na",   "n/a", "#n/a", "<na>", "nan",  "-nan",     "null",
      "none", "nil", "inf",  "-inf", "+inf", "infinity", "-infinity"};
  text = without_blanks(text);
  if (text.empty()) return true;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

}  // namespace snug::data
