// SPDX-License-Identifier: Apache-2.0
// What is made of weights only is made once an update, is always of the weights as they are, and
// changes no bit.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/philox.h"
#include "choose/choose.h"
#include "ops/elementwise/elementwise.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "session/engine.h"
#include "session/update.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kIn = 48;
constexpr int64_t kOut = 5;

// A layer whose weight is rounded to 16 bits before every use, by nodes of the given phase.
compile::NetworkDef rounding_network(Phase phase) {
  compile::NetworkDef network;
  network.build = [phase](GraphBuilder& builder, const compile::BuildRequest& request) -> ValueId {
    const ValueId x = builder.input("x", {DType::f32, {request.rows, kIn}});
    const ValueId w = builder.parameter("layer.weight", {DType::f32, {kOut, kIn}});
    ValueId rounded = kNone;
    {
      const PhaseGuard guard(builder, phase);
      rounded = cast(builder, cast(builder, w, DType::bf16), DType::f32);
    }
    const ValueId y = matmul(builder, x, rounded, {.transpose_b = true});
    if (!request.training) {
      builder.mark_output(y, "y");
      return kNone;
    }
    const ValueId target = builder.input("target", {DType::f32, {request.rows, kOut}});
    const ValueId weights = builder.input("row_weights", {DType::f32, {request.rows}});
    const ValueId inverse = builder.input("inv_total", {DType::f32, {}});
    const ValueId loss =
        builder.op1("mean_squared_error", {tanh(builder, y), target, weights, inverse});
    builder.mark_output(loss, "loss");
    return loss;
  };
  network.init_rule = [](const std::string&, const Shape&) { return InitRule{}; };
  network.is_head = [](const std::string&) { return false; };
  return network;
}

class Batch final : public BatchSource {
 public:
  [[nodiscard]] int64_t rows() const override { return kRows; }
  [[nodiscard]] Lengths length() const override { return 1; }
  void fill(Engine& engine, int64_t first_slot, int64_t drawn) const override {
    for (const char* name : {"x", "target"}) {
      const std::span<float> values = engine.edit<float>(name);
      const auto width = values.size() / static_cast<size_t>(engine.plan().micro_batch);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t element = static_cast<uint64_t>(first_slot) * width + i;
        PhiloxStream stream(11, 100000 * static_cast<uint64_t>(drawn + 1) + element);
        values[i] = static_cast<float>(stream.normal());
      }
    }
    for (float& weight : engine.edit<float>("row_weights")) weight = 1;
    engine.edit<float>("inv_total")[0] = 1.0F / kRows;
  }
};

struct Trained {
  std::unique_ptr<Backend> backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  choose::RunPlan plan;
  std::unique_ptr<Engine> engine;
  std::vector<double> losses;
  std::vector<float> first_weights;

  Trained(Phase phase, int64_t micro_batch, double max_grad_norm = 1.0) {
    const optim::Options adamw = optim::make_options("adamw");
    choose::RunPlanRequest request;
    request.network = rounding_network(phase);
    request.recipe.optimizer = adamw;
    request.recipe.max_grad_norm = max_grad_norm;
    request.global_batch = kRows;
    request.micro_batch = micro_batch;
    request.lengths = {1};
    request.budget_bytes = int64_t{1} << 30;
    plan = choose::make_run_plan(request, *backend);
    engine = std::make_unique<Engine>(plan, *backend);
    PhiloxStream stream(3, 0);
    for (float& value : engine->edit<float>("layer.weight"))
      value = static_cast<float>(stream.normal());
    first_weights = weights();
    for (int64_t i = 0; i < 4; ++i) {
      UpdateRule rule;
      rule.optimizer = adamw;
      rule.schedule.kind = ScheduleKind::constant;
      rule.rates = {0.05};
      const UpdateCounts done{.drawn = i, .schedule = i, .optimizer = i};
      losses.push_back(
          run_update(*engine, Batch(), {.counts = done}, rule, KeptBuffers(*engine)).loss);
    }
    engine->check_memory();
  }
  [[nodiscard]] std::vector<float> weights() const {
    const auto values = engine->view<float>("layer.weight");
    return {values.begin(), values.end()};
  }
  [[nodiscard]] std::vector<float> outputs() const {
    engine->run_prologue();
    Batch().fill(*engine, 0, 9);
    engine->run(engine->eval(0));
    std::vector<std::byte> buffer;
    const auto y = engine->output<float>(engine->eval(0), "y", plan.micro_batch * kOut, buffer);
    return {y.begin(), y.end()};
  }
};

int casts(const Graph& graph) {
  int found = 0;
  for (const Node& node : graph.nodes) found += *node.op->name == "cast" ? 1 : 0;
  return found;
}

TEST(Prologue, runs_once_an_update_and_changes_no_bit) {
  for (const double max_grad_norm : {1.0, 0.0}) {
    const Trained each_time(Phase::forward, 2, max_grad_norm);
    const Trained once(Phase::prologue, 2, max_grad_norm);
    ASSERT_EQ(once.plan.accumulation_steps, 4);
    EXPECT_EQ(once.losses, each_time.losses);
    EXPECT_EQ(once.weights(), each_time.weights());
    EXPECT_NE(once.weights(), once.first_weights);
    EXPECT_EQ(once.outputs(), each_time.outputs());

    ASSERT_TRUE(once.plan.prologue.has_value());
    EXPECT_EQ(casts(once.plan.prologue->graph), 2);
    // What is left are the gradients' two.
    EXPECT_EQ(casts(once.plan.train[0].graph), 2);
    EXPECT_EQ(casts(each_time.plan.train[0].graph), 4);
    EXPECT_EQ(casts(once.plan.eval[0].graph), 0);
    EXPECT_FALSE(each_time.plan.prologue.has_value());
  }
}

// One value is handed over, of the weight's size: the one between the two casts lies in the arena.
TEST(Prologue, what_it_makes_is_resident_and_counted) {
  const Trained each_time(Phase::forward, 2);
  const Trained once(Phase::prologue, 2);
  std::vector<std::string> cached;
  for (const auto& [name, entry] : once.plan.residents.entries()) {
    if (entry.kind == ValueKind::cached) cached.push_back(name);
  }
  EXPECT_EQ(cached, std::vector<std::string>{R"(cast(cast(layer.weight) {to="bf16"}) {to="f32"})"});
  const int64_t bytes = kOut * kIn * 4;
  EXPECT_EQ(once.plan.residents.at(cached[0]).bytes, bytes);
  EXPECT_GE(once.engine->measured_arena_bytes(), bytes / 2);
  EXPECT_EQ(once.engine->measured_arena_bytes(), once.plan.arena_bytes);
}

TEST(Prologue, is_a_part_of_the_only_micro_batch) {
  const Trained each_time(Phase::forward, kRows);
  const Trained once(Phase::prologue, kRows);
  EXPECT_FALSE(once.plan.prologue.has_value());
  EXPECT_EQ(once.losses, each_time.losses);
  EXPECT_EQ(once.weights(), each_time.weights());
  EXPECT_EQ(once.outputs(), each_time.outputs());
}

}  // namespace
}  // namespace snug::session
