// SPDX-License-Identifier: Apache-2.0
// The scale of a loss from update to update, as torch.amp.GradScaler and Paddle have it.
#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "snug/error.h"

namespace snug::optim {
namespace {

// Values and clean updates after each of a run of updates ('o' overflows).
struct Trace {
  std::vector<double> values;
  std::vector<int64_t> clean;
};
Trace run(const LossScaleRule& rule, const std::string& updates) {
  LossScale scale = initial_scale(rule);
  Trace trace;
  for (const char update : updates) {
    scale = next_scale(rule, scale, update == 'o');
    trace.values.push_back(scale.value);
    trace.clean.push_back(scale.clean_updates);
  }
  return trace;
}

// test_grad_scaling_update_scale of PyTorch.
TEST(Loss_scale, update_scale) {
  const LossScaleRule rule{.scaling = LossScaling::dynamic,
                           .initial = 4,
                           .growth = 2,
                           .backoff = 0.25,
                           .growth_interval = 2};
  const Trace trace = run(rule, "..o");
  EXPECT_EQ(trace.values, (std::vector<double>{4, 8, 2}));
  EXPECT_EQ(trace.clean, (std::vector<int64_t>{1, 0, 0}));
}

// test_grad_scale_will_not_overflow.
TEST(Loss_scale, scale_will_not_overflow) {
  const LossScaleRule rule{.scaling = LossScaling::dynamic,
                           .initial = 1e38,
                           .growth = 16,
                           .backoff = 0.5,
                           .growth_interval = 1};
  EXPECT_EQ(run(rule, "..").values, (std::vector<double>{1e38, 1e38}));
}

TEST(Loss_scale, dynamic_has_GradScalers_defaults) {
  const LossScaleRule rule = make_loss_scale("dynamic");
  EXPECT_EQ(rule.initial, 65536);
  EXPECT_EQ(run(rule, "o").values.back(), 32768);
  EXPECT_EQ(run(rule, std::string(1999, '.')).values.back(), 65536);
  EXPECT_EQ(run(rule, std::string(2000, '.')).values.back(), 131072);
  // An overflow begins the count anew.
  EXPECT_EQ(run(rule, std::string(1999, '.') + "o" + std::string(1999, '.')).values.back(), 32768);
}

TEST(Loss_scale, dynamic_paddle_falls_behind_two_overflows_in_a_row_and_no_lower_than_1) {
  const LossScaleRule rule = make_loss_scale("dynamic_paddle");
  EXPECT_EQ(rule.initial, 32768);
  EXPECT_EQ(run(rule, "o.o.o").values.back(), 32768);
  const auto fallen = static_cast<double>(static_cast<float>(32768 * 0.8));
  EXPECT_EQ(run(rule, "ooo").values, (std::vector<double>{32768, fallen, fallen}));
  EXPECT_EQ(run(rule, std::string(1000, '.')).values.back(), 65536);
  EXPECT_EQ(run(rule, std::string(1000, 'o')).values.back(), 1);
}

TEST(Loss_scale, falls_to_the_floor_and_has_nowhere_to_go_from_it) {
  const LossScaleRule rule = make_loss_scale("dynamic", 20000);
  LossScale scale = initial_scale(rule);
  EXPECT_TRUE(may_overflow(rule, scale));
  scale = next_scale(rule, next_scale(rule, scale, true), true);
  EXPECT_EQ(scale.value, 20000);
  EXPECT_FALSE(may_overflow(rule, scale));
  // Without a floor it stays a number with a reciprocal.
  const LossScaleRule open = make_loss_scale("dynamic");
  const double least = run(open, std::string(1000, 'o')).values.back();
  EXPECT_TRUE(std::isnormal(static_cast<float>(least)));
  EXPECT_TRUE(std::isnormal(static_cast<float>(1 / least)));
}

TEST(Loss_scale, none_and_a_constant_never_move) {
  for (const char* word : {"none", "auto", "1024", "0.5"}) {
    const LossScaleRule rule = make_loss_scale(word);
    const LossScale scale = initial_scale(rule);
    EXPECT_FALSE(may_overflow(rule, scale));
    EXPECT_EQ(next_scale(rule, scale, true).value, scale.value);
    EXPECT_EQ(next_scale(rule, scale, false).clean_updates, 0);
  }
  EXPECT_EQ(initial_scale(make_loss_scale("1024")).value, 1024);
  EXPECT_EQ(make_loss_scale("auto").scaling, LossScaling::none);
}

TEST(Loss_scale, refuses_what_is_no_scale) {
  const auto where_of = [](const std::string& word, double least) {
    try {
      (void)make_loss_scale(word, least);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      return error.where();
    }
    return std::string();
  };
  for (const char* word : {"", "Dynamic", "0", "-1", "1e39", "1e-39", "inf", "nan", "64x"})
    EXPECT_EQ(where_of(word, 0), "loss_scale") << word;
  EXPECT_EQ(where_of("none", 1), "loss_scale_min");
  EXPECT_EQ(where_of("64", 1), "loss_scale_min");
  EXPECT_EQ(where_of("dynamic", -1), "loss_scale_min");
  EXPECT_EQ(where_of("dynamic", 65537), "loss_scale_min");
  try {
    (void)make_loss_scale("dynamic", 1e30);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1e+30 is not above 0 and at most 65536,"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace snug::optim
