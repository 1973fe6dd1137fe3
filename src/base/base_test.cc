// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/numbers.h"
#include "base/philox.h"
#include "base/pieces.h"
#include "base/printable.h"
#include "base/shared_text.h"
#include "base/shell.h"
#include "base/stop.h"
#include "base/threads.h"
#include "base/units.h"
#include "base/utf8.h"
#include "snug/error.h"

namespace snug {
namespace {

TEST(Utf8, strict_validation_finds_the_first_bad_byte) {
  for (const char* good :
       {"", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "0123456789\xE2\x82\xAC 0123456789"}) {
    EXPECT_FALSE(first_invalid_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x90\x80"}) {
    EXPECT_EQ(first_invalid_utf8(bad), 0u);
    EXPECT_EQ(first_invalid_utf8("0123456789abc" + std::string(bad) + "x"), 13u);
  }
  EXPECT_EQ(clip_text("a\xE2\x82\xAC", 3), "a...");
  EXPECT_EQ(clip_text("abc", 3), "abc");
}

TEST(IndexVector, is_a_vector_whose_index_is_any_whole_type) {
  IndexVector<int64_t> bytes(int32_t{3}, 7);
  const int32_t id = 1;
  bytes[id] = 8;
  bytes[size_t{2}] = 9;
  EXPECT_EQ(bytes, (std::vector<int64_t>{7, 8, 9}));
  const int64_t* const data = bytes.data();
  const std::vector<int64_t> moved = std::move(bytes);  // and back, without a copy
  EXPECT_EQ(moved.data(), data);
  const IndexSpan<const int64_t> span = moved;
  EXPECT_EQ(span[id], 8);
  IndexVector<bool> flags(2);
  flags[id] = true;
  flags.resize(int32_t{4}, true);
  EXPECT_EQ(flags, (std::vector<bool>{false, true, true, true}));
  flags.assign(int32_t{1}, false);
  EXPECT_EQ(flags, std::vector<bool>{false});
  EXPECT_FALSE(
      (std::is_convertible_v<const std::vector<bool>&, IndexVector<bool>>));  // a silent copy
}

using Fruit = Id<struct FruitTag>;
using Animal = Id<struct AnimalTag>;
template <class Key>
concept IsKeyOfFruit = requires(const IdVector<Fruit, int>& list, Key key) {
  list[key];
};

TEST(Id, is_a_key_of_its_own_list_only) {
  EXPECT_TRUE(IsKeyOfFruit<Fruit>);
  EXPECT_FALSE(IsKeyOfFruit<Animal>);
  EXPECT_FALSE(IsKeyOfFruit<int>);
  EXPECT_FALSE((std::is_constructible_v<Fruit, Animal>));
  EXPECT_FALSE((std::is_convertible_v<int, Fruit>));
  EXPECT_FALSE((std::is_convertible_v<Fruit, int>));
}

TEST(Id, none_is_no_key) {
  const IdVector<Fruit, int> list = {7, 8};
  EXPECT_EQ(Fruit(), kNone);
  EXPECT_FALSE(list.has(kNone));
  EXPECT_TRUE(list.has(Fruit(1)));
  EXPECT_FALSE(list.has(list.end_id()));
  EXPECT_LT(Fruit(kNone), Fruit(0));
}

TEST(Id, a_vector_gives_the_ids_that_it_has) {
  IdVector<Fruit, std::string> names;
  EXPECT_EQ(names.add("apple"), Fruit(0));
  const Fruit pear = names.add("pear");
  EXPECT_EQ(names[pear], "pear");
  const auto list = [](auto ids) { return std::vector<Fruit>(ids.begin(), ids.end()); };
  EXPECT_EQ(list(names.ids()), (std::vector<Fruit>{Fruit(0), pear}));
  EXPECT_EQ(list(names.ids().backwards()), (std::vector<Fruit>{pear, Fruit(0)}));
  const IdVector<Fruit, Fruit> each_itself = names.ids();
  EXPECT_EQ(each_itself[pear], pear);
  EXPECT_EQ(to_string(pear), "1");
}

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, known_answers_match) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffffull),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ull),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Threads, every_index_runs_once_for_every_thread_count) {
  for (int threads : {1, 2, 3, 7}) {
    for (int64_t n : {0, 1, 5, 64, 1000}) {
      for (int64_t grain : {1, 16}) {
        std::vector<int> seen(static_cast<size_t>(n), 0);
        parallel_for(threads, n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (int count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(Units, a_budget_that_is_printed_is_enough_when_typed) {
  EXPECT_EQ(format_bytes_up(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes_up(1537), "1.51 KiB");
  EXPECT_EQ(format_bytes_up((int64_t{61} << 20) + 1), "61.1 MiB");
  EXPECT_EQ(format_bytes_up(int64_t{61} << 20), "61.0 MiB");
  PhiloxStream random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto bytes = static_cast<int64_t>(random.below(uint64_t{1} << (1 + random.below(50))));
    const std::string text = format_bytes_up(bytes);
    ASSERT_GE(parse_bytes(text, "memory"), bytes) << text;
    ASSERT_LE(static_cast<double>(parse_bytes(text, "memory")), 1.011 * static_cast<double>(bytes))
        << text;
  }
  EXPECT_TRUE(is_byte_unit("MiB") && is_byte_unit("GB"));
  EXPECT_FALSE(is_byte_unit("") || is_byte_unit("bit") || is_byte_unit("7"));
}

TEST(Numbers, Their_text_is_the_shortest_and_a_NaN_has_no_sign) {
  EXPECT_EQ(number_text(100000), "100000");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(-HUGE_VAL), "-inf");
  for (const double nan : {std::nan(""), -std::nan("")}) {
    EXPECT_EQ(number_text(nan), "nan");
    EXPECT_FALSE(std::signbit(plain_nan(nan)));
  }
  EXPECT_EQ(plain_nan(-1), -1);
}

TEST(Numbers, Digits_are_those_of_printf_and_nothing_is_minus_zero) {
  for (const double value :
       {0.0, 1.0, 0.125, 2.5, 1234567.875, 1e-7, 9.995, -3.14159, 1e300, 5e-324}) {
    for (const int digits : {0, 1, 4, 17}) {
      std::array<char, 400> text{};
      std::snprintf(text.data(), text.size(), "%.*f", digits, value);
      EXPECT_EQ(fixed_text(value, digits),
                std::string_view(text.data()).find_first_not_of("-0.") == std::string_view::npos &&
                        text[0] == '-'
                    ? text.data() + 1
                    : text.data());
      std::snprintf(text.data(), text.size(), "%.*g", std::max(digits, 1), value);
      EXPECT_EQ(digits_text(value, std::max(digits, 1)), text.data());
    }
  }
  EXPECT_EQ(fixed_text(-0.0004, 3), "0.000");
  EXPECT_EQ(fixed_text(-0.0006, 3), "-0.001");
  EXPECT_EQ(fixed_text(-std::nan(""), 2), "nan");
  EXPECT_EQ(hex_text(0x0A, 2), "0a");
  EXPECT_EQ(hex_text(0xBEEF, 2, true), "BEEF");
}

TEST(Pieces, of_a_text) {
  const std::string text = " one\ttwo\r\n\nthree ";
  EXPECT_EQ(words_in(text), (std::vector<std::string_view>{"one", "two", "three"}));
  EXPECT_EQ(lines_in(text), (std::vector<std::string_view>{" one\ttwo\r", "", "three "}));
  const std::string list = "a,,b,";
  EXPECT_EQ(pieces_in(list, ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_TRUE(words_in(std::string_view()).empty() && lines_in(std::string_view()).empty());
}

TEST(Stop, Scopes_of_a_thread_add_up_and_end) {
  std::atomic<bool> cancel{false};
  EXPECT_NO_THROW(stop_point());
  {
    const StopScope outer({.cancel = &cancel, .deadline = {}});
    {
      const StopScope late({.cancel = nullptr, .deadline = StopClock::now()});
      EXPECT_TRUE(is_stop_due());
      EXPECT_FALSE(outer.is_due());
    }
    const StopScope inner({.cancel = nullptr, .deadline = {}});
    EXPECT_NO_THROW(stop_point());
    cancel = true;
    {
      const StopPause pause;
      EXPECT_NO_THROW(stop_point());
    }
    try {
      stop_point();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
  }
  EXPECT_FALSE(is_stop_due());
}

TEST(Units, bytes_read_and_print) {
  EXPECT_EQ(parse_bytes("900MiB", "memory"), 900ll << 20);
  EXPECT_EQ(parse_bytes("1.5GiB", "memory"), 3ll << 29);
  EXPECT_EQ(parse_bytes("4096", "memory"), 4096);
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  // As other programs write them; a letter alone is never more than any of them means.
  for (const auto& [text, bytes] : {std::pair<const char*, int64_t>{"2G", 2'000'000'000},
                                    {"2GB", 2'000'000'000},
                                    {"2gb", 2'000'000'000},
                                    {"2Gi", int64_t{2} << 30},
                                    {"2 gib", int64_t{2} << 30},
                                    {"512m", 512'000'000},
                                    {"512mi", int64_t{512} << 20},
                                    {"1.5k", 1500},
                                    {"1T", 1'000'000'000'000},
                                    {"7b", 7}})
    EXPECT_EQ(parse_bytes(text, "memory"), bytes) << text;
  for (const char* bad :
       {"", "MiB", "12 parsecs", "-5MiB", "nan", "1e30GiB", "2i", "2GiBi", "2bb", "2P", "2GG"}) {
    try {
      (void)parse_bytes(bad, "memory");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_EQ(error.where(), "memory");
    }
  }
}

TEST(Error, control_characters_of_what_is_quoted_are_spelled_out) {
  const Error error(ErrorCode::bad_data, "a\x1b[2J", "label '\x07\x7f\xC2\x9B' of \xC3\xA9\tx",
                    "one\ntwo\r");
  EXPECT_STREQ(error.what(),
               "[a\\x1b[2J] label '\\x07\\x7f\\x9b' of \xC3\xA9\tx\nhint: one\ntwo\\x0d");
  EXPECT_EQ(error.where(), "a\\x1b[2J");
  EXPECT_EQ(printable_name("\x1b[31ma\nb\t\xC3\xA9"), "\\x1b[31ma\\x0ab\\x09\xC3\xA9");
  EXPECT_EQ(error.hint(), "one\ntwo\\x0d");
}

TEST(Shell, words_are_the_text_again) {
  EXPECT_EQ(shell_word("/a/b-c_1.bin"), "/a/b-c_1.bin");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("$HOME`x\"y"), "'$HOME`x\"y'");
  EXPECT_EQ(shell_word("it's"), "\"it's\"");
  EXPECT_EQ(shell_word("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(python_literal("it's a\\b\n"), "'it\\'s a\\\\b\\n'");
}

TEST(SharedText, copies_share_one_block) {
  const SharedText none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.str(), "");
  EXPECT_EQ(SharedText(""), none);
  const SharedText scope = std::string("encoder.layer.3");
  const SharedText copy = scope;  // NOLINT: a copy is what is tested
  EXPECT_EQ(&copy.str(), &scope.str());
  EXPECT_EQ(SharedText("encoder.layer.3"), scope);
  EXPECT_FALSE(SharedText("encoder.layer.4") == scope);
}

}  // namespace
}  // namespace snug
