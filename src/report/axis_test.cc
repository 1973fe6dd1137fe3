// SPDX-License-Identifier: Apache-2.0
#include "report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace snug::report {
namespace {

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> texts;
  for (const Tick& tick : axis.ticks) texts.push_back(tick.label);
  return texts;
}

using Texts = std::vector<std::string>;
constexpr double kMiB = 1048576;

TEST(Axis, ticks_are_round_numbers_of_one_unit) {
  EXPECT_EQ(labels(make_axis(0, 153 * kMiB, Quantity::bytes)),
            (Texts{"0", "50 MiB", "100 MiB", "150 MiB"}));
  EXPECT_EQ(labels(make_axis(0, 0.0031, Quantity::seconds)), (Texts{"0", "1 ms", "2 ms", "3 ms"}));
  EXPECT_EQ(labels(make_axis(1.15, 1.62, Quantity::seconds)),
            (Texts{"1.2 s", "1.3 s", "1.4 s", "1.5 s", "1.6 s"}));
  EXPECT_EQ(labels(make_axis(0, 9000, Quantity::seconds)),
            (Texts{"0", "0.5 h", "1 h", "1.5 h", "2 h", "2.5 h"}));
}

TEST(Axis, begins_and_ends_with_what_it_is_given) {
  const Axis axis = make_axis(30.6 * kMiB, 61.2 * kMiB, Quantity::bytes);
  EXPECT_EQ(labels(axis), (Texts{"40 MiB", "50 MiB", "60 MiB"}));
  EXPECT_EQ(axis.share(30.6 * kMiB), 0);
  EXPECT_EQ(axis.share(61.2 * kMiB), 1);
}

TEST(Axis, one_value_has_room_on_both_sides) {
  for (const double value : {0.0, 1e-9, 1.0, 64 * kMiB, 1e13}) {
    for (const Quantity quantity : {Quantity::bytes, Quantity::seconds}) {
      const Axis axis = make_axis(value, value, quantity);
      EXPECT_LT(axis.begin, axis.end);
      EXPECT_GE(axis.share(value), 0);
      EXPECT_LE(axis.share(value), 1);
      EXPECT_GE(axis.ticks.size(), 2U) << value;
    }
  }
}

TEST(Axis, is_logarithmic_where_values_hug_it) {
  std::vector<double> hugging = {100 * kMiB, 101 * kMiB, 103 * kMiB, 110 * kMiB, 1600 * kMiB};
  EXPECT_EQ(scale_for(hugging), Scale::logarithmic);
  const Axis axis = make_axis(hugging.front(), hugging.back(), Quantity::bytes, Scale::logarithmic);
  EXPECT_EQ(labels(axis), (Texts{"128 MiB", "256 MiB", "512 MiB", "1 GiB"}));
  EXPECT_NEAR(axis.share(400 * kMiB), 0.5, 1e-12);
  hugging.back() = 500 * kMiB;  // of that range a linear axis tells enough
  EXPECT_EQ(scale_for(hugging), Scale::linear);
  EXPECT_EQ(scale_for(std::vector<double>{1, 4, 7, 10}), Scale::linear);
  EXPECT_EQ(scale_for(std::vector<double>{0, 0, 0, 10}), Scale::linear);
}

TEST(Axis, has_between_two_and_eight_ticks_within_it) {
  for (const Quantity quantity : {Quantity::bytes, Quantity::seconds}) {
    for (double low = 1e-6; low < 1e12; low *= 3.7) {
      for (double range = 1.01; range < 1e6; range *= 1.9) {
        for (const Scale scale : {Scale::linear, Scale::logarithmic}) {
          if (scale == Scale::logarithmic && range < 8) continue;
          const Axis axis = make_axis(low, low * range, quantity, scale);
          EXPECT_GE(axis.ticks.size(), 2U) << low << " " << range;
          EXPECT_LE(axis.ticks.size(), 8U) << low << " " << range;
          for (const Tick& tick : axis.ticks) {
            EXPECT_GE(axis.share(tick.value), -1e-9);
            EXPECT_LE(axis.share(tick.value), 1 + 1e-9);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug::report
