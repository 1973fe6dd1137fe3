// SPDX-License-Identifier: Apache-2.0
#include "optim/state_storage.h"

#include <gtest/gtest.h>

#include "snug/error.h"

namespace snug::optim {
namespace {

const Shape kLarge = {64, 64};
const Shape kSmall = {63, 65};  // 4095 elements

TEST(State_storage, leaves_small_states_and_tables_in_32_bits_unless_a_rule_says_otherwise) {
  const Options adamw = make_options("adamw");
  const StateStorage eight{.bits = 8};
  EXPECT_EQ(codec_for(eight, adamw, "w", kLarge, false), StateCodec::adaptive);
  EXPECT_EQ(codec_for(eight, adamw, "w", kSmall, false), std::nullopt);
  EXPECT_EQ(codec_for(eight, adamw, "w", kLarge, true), std::nullopt);
  EXPECT_EQ(codec_for({}, adamw, "w", kLarge, false), std::nullopt);
  const StateStorage ruled{.bits = 8,
                           .codec = StateCodec::bnb,
                           .overrides = {{"table.*", 8}, {"*.bias", 8}, {"dense.*", 32}}};
  EXPECT_EQ(codec_for(ruled, adamw, "table.w", kLarge, true), StateCodec::bnb);
  EXPECT_EQ(codec_for(ruled, adamw, "dense.bias", kSmall, false), StateCodec::bnb);
  EXPECT_EQ(codec_for(ruled, adamw, "dense.w", kLarge, false), std::nullopt);
  const StateStorage few{.overrides = {{"a.*", 8}}};
  EXPECT_EQ(codec_for(few, adamw, "a.w", kLarge, false), StateCodec::adaptive);
  EXPECT_EQ(codec_for(few, adamw, "b.w", kLarge, false), std::nullopt);
}

TEST(State_storage, names_codes_and_scales) {
  const auto states = states_of(make_options("adamw"), "w", {3, 257}, StateCodec::adaptive);
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states[0].name, "m.w.codes");
  EXPECT_EQ(to_string(states[0].type), "u8[3,257]");
  EXPECT_EQ(states[1].name, "m.w.scales");
  EXPECT_EQ(to_string(states[1].type), "f32[4]");
  EXPECT_EQ(states[3].name, "v.w.scales");
}

std::string refusal(const StateStorage& storage, const Options& options,
                    const std::vector<StateOwner>& trained = {{"dense.weight", {64, 64}},
                                                              {"dense.bias", {64}}}) {
  try {
    check_storage(storage, options, {"dense.weight", "dense.bias", "frozen.weight"}, trained);
  } catch (const Error& error) {
    return error.where() + ": " + error.message();
  }
  return {};
}

TEST(State_storage, refuses_what_would_change_nothing) {
  const StateStorage eight{.bits = 8};
  EXPECT_EQ(refusal(eight, make_options("adamw")), "");
  EXPECT_EQ(refusal(eight, make_options("sgd", {{"momentum", 0.9}})), "");
  EXPECT_EQ(refusal({}, make_options("sgd")), "");
  for (const char* without : {"sgd", "adafactor"})
    EXPECT_EQ(refusal(eight, make_options(without)),
              "optim_bits: " + std::string(without) +
                  " has no states of a weight's size: there is nothing to store in 8 bits");
  EXPECT_EQ(refusal({.overrides = {{"conv.*", 32}}}, make_options("adamw")),
            "optim_bits_overrides: the pattern 'conv.*' matches no weight of the model");
  EXPECT_EQ(refusal({.overrides = {{"frozen.*", 8}}}, make_options("adamw")),
            "optim_bits_overrides: every weight that the pattern 'frozen.*' matches is frozen");
  EXPECT_EQ(refusal({.overrides = {{"*", 8}, {"dense.*", 32}}}, make_options("adamw")),
            "optim_bits_overrides: the pattern 'dense.*' comes after patterns that match all its "
            "trained weights");
  const std::string none_coded =
      "optim_bits: no state would be in 8 bits: each weight that is trained has fewer than 4096 "
      "elements, or is a table of embeddings";
  EXPECT_EQ(refusal(eight, make_options("adamw"), {{"dense.bias", {64}}}), none_coded);
  EXPECT_EQ(refusal(eight, make_options("adamw"), {{"dense.weight", {64, 64}, true}}), none_coded);
  EXPECT_EQ(refusal({.bits = 8, .overrides = {{"*", 32}}}, make_options("adamw")), none_coded);
  EXPECT_EQ(refusal({.overrides = {{"dense.bias", 8}}}, make_options("adamw")), "");
}

}  // namespace
}  // namespace snug::optim
