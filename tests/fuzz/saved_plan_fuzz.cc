// SPDX-License-Identifier: Apache-2.0
// Saved plans, judged against the problem of a small chain.
#include <string>

#include "choose/saved_plan.h"
#include "fuzz/fuzz.h"
#include "plan/problem/plan.h"

namespace snug::fuzz {
namespace {

plan::Problem chain() {
  plan::Problem problem;
  problem.storages = {{"x", 64, true}, {"a", 64, false}, {"b", 128, false}};
  problem.ops = {{.name = "first",
                  .scope = "",
                  .seconds = 1,
                  .inputs = {plan::StorageId(0)},
                  .outputs = {plan::StorageId(1)}},
                 {.name = "second",
                  .scope = "",
                  .phase = Phase::backward,
                  .seconds = 2,
                  .inputs = {plan::StorageId(1)},
                  .outputs = {plan::StorageId(2)}}};
  problem.keep = {plan::StorageId(2)};
  return problem;
}

}  // namespace

void read_saved_plan(std::string_view input) {
  const choose::SavedPlan saved = choose::read_saved_plan(write_file("plan.json", input));
  const plan::Plan plan = saved.at("train", 4, chain());
  require(plan.arena_bytes >= 0, "an arena has a size");
}

}  // namespace snug::fuzz
