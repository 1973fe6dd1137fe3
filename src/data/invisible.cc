// SPDX-License-Identifier: Apache-2.0
#include "data/invisible.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace snug::data {
namespace {

// White_Space, Cc, Cf and Default_Ignorable_Code_Point of Unicode 16, and the blank of Braille.
// The formats of scripts that hold a place of their own (Arabic signs of numbers) are seen.
constexpr std::array<std::pair<char32_t, char32_t>, 24> kRanges = {
    {{0x0, 0x20},        {0x7F, 0xA0},       {0xAD, 0xAD},       {0x34F, 0x34F},
     {0x61C, 0x61C},     {0x115F, 0x1160},   {0x1680, 0x1680},   {0x17B4, 0x17B5},
     {0x180B, 0x180F},   {0x2000, 0x200F},   {0x2028, 0x202F},   {0x205F, 0x206F},
     {0x2800, 0x2800},   {0x3000, 0x3000},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},
     {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x13430, 0x13440},
     {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}, {0x10FFFE, 0x10FFFF}}};

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte(at + i) & 0x3Fu);
  at += length;
  return c;
}

bool is_in_a_range(char32_t c) {
  const auto next =
      std::upper_bound(kRanges.begin(), kRanges.end(), c,
                       [](char32_t value, const auto& range) { return value < range.first; });
  return next != kRanges.begin() && c <= (next - 1)->second;
}

}  // namespace

bool is_invisible(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!is_in_a_range(next_character(text, at))) return false;
  }
  return true;
}

bool is_invisible(const Row& row) {
  const auto is_one = [](std::string_view text) { return is_invisible(text); };
  return is_one(row.text) && is_one(row.pair) &&
         std::all_of(row.words.begin(), row.words.end(), is_one);
}

}  // namespace snug::data
