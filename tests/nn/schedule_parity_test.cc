// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules against transformers' get_scheduler (tests/golden/schedules.txt, written
// by tools/golden/schedules.py).
#include <gtest/gtest.h>

#include "nn/ref_graph.h"
#include "optim/schedule.h"
#include "snug/error.h"

namespace snug {
namespace {

struct ScheduleCase {
  const char* golden;
  optim::Schedule schedule;
};

TEST(Schedule, factors_equal_transformers) {
  using enum ScheduleKind;
  const GoldenText goldens(SNUG_SOURCE_DIR "/tests/golden/schedules.txt");
  const ScheduleCase cases[] = {
      {"linear.10.0", {linear, 0, 10}},
      {"linear.10.3", {linear, 3, 10}},
      {"linear.7.7", {linear, 7, 7}},
      {"linear.1.0", {linear, 0, 1}},
      {"linear.1.1", {linear, 1, 1}},
      {"linear.5.8", {linear, 8, 5}},
      {"cosine.10.0", {cosine, 0, 10}},
      {"cosine.11.4", {cosine, 4, 11}},
      {"cosine.3.3", {cosine, 3, 3}},
      {"constant.6.0", {constant, 0, 6}},
      {"constant.6.4", {constant, 4, 6}},
      {"inverse_sqrt.8.0", {inverse_sqrt, 0, 8}},
      {"inverse_sqrt.8.3", {inverse_sqrt, 3, 8}},
      {"cosine.9.2,num_cycles=1.25", {cosine, 2, 9, {{"num_cycles", 1.25}}}},
      {"inverse_sqrt.8.2,timescale=5", {inverse_sqrt, 2, 8, {{"timescale", 5}}}},
      {"cosine_with_restarts.9.2", {cosine_with_restarts, 2, 9}},
      {"cosine_with_restarts.11.1,num_cycles=3",
       {cosine_with_restarts, 1, 11, {{"num_cycles", 3}}}},
      {"polynomial.9.0", {polynomial, 0, 9}},
      {"polynomial.5.8", {polynomial, 8, 5}},
      {"polynomial.9.3,power=2.0,lr_end=0.125",
       {polynomial, 3, 9, {{"power", 2}, {"lr_end", 0.125}}}},
      {"polynomial.7.2,lr=5e-05,power=0.5", {polynomial, 2, 7, {{"power", 0.5}}, 5e-5}},
      {"cosine_with_min_lr.9.2,lr=0.5,min_lr=0.125",
       {cosine_with_min_lr, 2, 9, {{"min_lr", 0.125}}, 0.5}},
      {"cosine_with_min_lr.9.0,min_lr_rate=0.1,num_cycles=1.5",
       {cosine_with_min_lr, 0, 9, {{"min_lr_rate", 0.1}, {"num_cycles", 1.5}}}},
      {"cosine_warmup_with_min_lr.9.3,min_lr_rate=0.1",
       {cosine_warmup_with_min_lr, 3, 9, {{"min_lr_rate", 0.1}}}},
      {"cosine_warmup_with_min_lr.8.3,lr=0.5,min_lr=0.25,warmup_lr_rate=0.2",
       {cosine_warmup_with_min_lr, 3, 8, {{"min_lr", 0.25}, {"warmup_lr_rate", 0.2}}, 0.5}},
      {"warmup_stable_decay.10.2,num_decay_steps=4",
       {warmup_stable_decay, 2, 10, {{"num_decay_steps", 4}}}},
      {"warmup_stable_decay.12.3,num_decay_steps=5,num_stable_steps=2,min_lr_ratio=0.1,num_cycles="
       "1.25",
       {warmup_stable_decay,
        3,
        12,
        {{"num_decay_steps", 5},
         {"num_stable_steps", 2},
         {"min_lr_ratio", 0.1},
         {"num_cycles", 1.25}}}},
      {"warmup_stable_decay.6.2,num_decay_steps=7",
       {warmup_stable_decay, 2, 6, {{"num_decay_steps", 7}}}},
  };
  for (const ScheduleCase& c : cases) {
    const std::vector<double>& wanted = goldens.at(c.golden).data;
    ASSERT_EQ(static_cast<int64_t>(wanted.size()), c.schedule.total_steps) << c.golden;
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(optim::rate_factor(c.schedule, static_cast<int64_t>(i)), wanted[i], 1e-15)
          << c.golden << " " << i;
    }
  }
}

TEST(Schedule, arguments_that_a_kind_does_not_have_are_refused) {
  const auto refused = [](ScheduleKind kind, const NamedNumbers& arguments) {
    TrainSpec spec;
    spec.lr_scheduler_type = kind;
    spec.lr_scheduler_kwargs = arguments;
    try {
      (void)optim::schedule_of(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "lr_scheduler_kwargs");
      return error.message() + "; " + error.hint();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused(ScheduleKind::linear, {{"power", 1}}),
            "'power' is no argument of linear; omit lr_scheduler_kwargs");
  EXPECT_EQ(refused(ScheduleKind::cosine, {{"timescale", 1}}),
            "'timescale' is no argument of cosine; there is: num_cycles");
  EXPECT_EQ(refused(ScheduleKind::cosine, {{"num_cycles", 0}}),
            "num_cycles 0 is not above 0; give a number above 0");
  EXPECT_EQ(refused(ScheduleKind::inverse_sqrt, {{"timescale", 3}}), "nothing");
  EXPECT_EQ(refused(ScheduleKind::polynomial, {{"lr_end", 0}}), "nothing");
  EXPECT_EQ(refused(ScheduleKind::cosine_with_min_lr, {}).substr(0, 59),
            "cosine_with_min_lr needs min_lr or min_lr_rate, and not bot");
  EXPECT_EQ(refused(ScheduleKind::cosine_with_min_lr, {{"min_lr_rate", 0}}), "nothing");
  EXPECT_EQ(refused(ScheduleKind::warmup_stable_decay, {}).substr(0, 41),
            "warmup_stable_decay needs num_decay_steps");
  EXPECT_EQ(refused(ScheduleKind::polynomial, {{"lr_end", 0.5}}),
            "lr_end 0.5 is not below learning_rate 0.001; give a smaller lr_end");
}

// Hugging Face's TrainingArguments.get_warmup_steps.
TEST(Schedule, warmup_steps_win_over_the_ratio_which_rounds_up) {
  EXPECT_EQ(optim::resolve_warmup(5, 0.5, 100), 5);
  EXPECT_EQ(optim::resolve_warmup(0, 0.1, 101), 11);
  EXPECT_EQ(optim::resolve_warmup(0, 0.1, 100), 10);
  EXPECT_EQ(optim::resolve_warmup(0, 0, 100), 0);
}

TEST(Schedule, rate_stays_at_0_after_the_end) {
  EXPECT_EQ(optim::rate_factor({ScheduleKind::linear, 2, 10}, 12), 0);
  EXPECT_EQ(optim::rate_factor({ScheduleKind::cosine_with_restarts, 2, 10}, 12), 0);
}

TEST(Schedule, polynomial_stays_at_its_end) {
  for (const int64_t completed : {10, 12})
    EXPECT_EQ(optim::rate_factor({ScheduleKind::polynomial, 2, 10, {{"lr_end", 0.25}}}, completed),
              0.25);
}

}  // namespace
}  // namespace snug
