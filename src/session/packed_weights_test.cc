// SPDX-License-Identifier: Apache-2.0
// A run whose weights are packed once an update has the bits of one that packs them in every
// product, is planned to the byte, and raises no smallest budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/product/panels.h"
#include "base/philox.h"
#include "base/units.h"
#include "choose/choose.h"
#include "choose/saved_plan.h"
#include "compile/compile_testing.h"
#include "ops/elementwise/elementwise.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "plan/problem/validate.h"
#include "session/engine.h"
#include "session/update.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 72;
constexpr int64_t kLongest = 6;  // and 1: then no gradient goes on to a state
constexpr int64_t kLarge = int64_t{1} << 30;
constexpr const char* kWeights[] = {"from_x", "from_state", "bias", "out"};

/// The CPU's kernels, whose packed products are said to gain much.
class Packing final : public Backend {
 public:
  explicit Packing(bool fuses = true) : fuses_(fuses) {}
  [[nodiscard]] std::string name() const override { return cpu_->name(); }
  [[nodiscard]] int64_t alignment() const override { return cpu_->alignment(); }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return cpu_->storage_bytes(type);
  }
  [[nodiscard]] WeightPanels weight_panels() const override { return cpu_->weight_panels(); }
  [[nodiscard]] int64_t few_rows() const override { return cpu_->few_rows(); }
  // Products as small as these gain nothing.
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    KernelChoice choice = cpu_->select(spec);
    if (!fuses_) choice.fused = {};
    if (*spec.op->name != "packed_matmul") return choice;
    for (double* seconds : {&choice.seconds, &choice.saved_seconds, &choice.far_seconds})
      *seconds /= 4;
    return choice;
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    return cpu_->create(spec);
  }
  [[nodiscard]] std::unique_ptr<Kernel> create_fused(const NodeSpec& spec,
                                                     int32_t count) const override {
    return cpu_->create_fused(spec, count);
  }
  [[nodiscard]] std::unique_ptr<Kernel> create_row_program(
      std::span<const RowNode> nodes) const override {
    return cpu_->create_row_program(nodes);
  }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
    return cpu_->create_queue();
  }

 private:
  bool fuses_;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 2, .profile = default_profile()});
};

// A recurrent net: two weights that every step reads, one of them behind a bias of the product's
// own shape, and a weight that is read once.
compile::NetworkDef recurrent() {
  compile::NetworkDef network;
  network.build = [](GraphBuilder& builder, const compile::BuildRequest& request) -> ValueId {
    const Shape rows = {request.rows, kWidth};
    const ValueId x = builder.input("x", {DType::f32, rows});
    const ValueId from_x = builder.parameter("from_x", {DType::f32, {kWidth, kWidth}});
    const ValueId from_state = builder.parameter("from_state", {DType::f32, {kWidth, kWidth}});
    const ValueId bias = builder.parameter("bias", {DType::f32, {kWidth}});
    ValueId state = x;
    for (int64_t step = 0; step < request.lengths.of(); ++step) {
      const ValueId part = matmul(builder, x, from_x, {.transpose_b = true, .bias = bias});
      state = tanh(builder, matmul(builder, state, from_state, {.bias = part}));
    }
    const ValueId y =
        matmul(builder, state, builder.parameter("out", {DType::f32, {kWidth, kWidth}}));
    if (!request.training) {
      builder.mark_output(y, "y");
      return kNone;
    }
    return compile::squared_error(builder, y);
  };
  network.init_rule = [](const std::string&, const Shape&) { return InitRule{}; };
  network.is_head = [](const std::string&) { return false; };
  network.shortest = 1;
  return network;
}

void fill_input(Engine& engine, const char* name, int64_t first_slot, int64_t drawn) {
  const std::span<float> values = engine.edit<float>(name);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t element = static_cast<uint64_t>(first_slot * kWidth) + i;
    PhiloxStream stream(11, 100000 * static_cast<uint64_t>(drawn + 1) + element);
    values[i] = static_cast<float>(stream.normal());
  }
}

class Batch final : public BatchSource {
 public:
  explicit Batch(Lengths length) : length_(std::move(length)) {}
  [[nodiscard]] int64_t rows() const override { return kRows; }
  [[nodiscard]] Lengths length() const override { return length_; }
  void fill(Engine& engine, int64_t first_slot, int64_t drawn) const override {
    for (const char* name : {"x", "target"}) fill_input(engine, name, first_slot, drawn);
    for (float& weight : engine.edit<float>("row_weights")) weight = 1;
    engine.edit<float>("inv_total")[0] = 1.0F / kRows;
  }

 private:
  Lengths length_;
};

choose::RunPlanRequest request_of(int64_t micro_batch, double max_grad_norm) {
  choose::RunPlanRequest request;
  request.network = recurrent();
  request.recipe.optimizer = optim::make_options("adamw");
  request.recipe.max_grad_norm = max_grad_norm;
  request.global_batch = kRows;
  request.micro_batch = micro_batch;
  request.lengths = {1, kLongest};
  request.budget_bytes = kLarge;
  return request;
}

void set_weights(Engine& engine) {
  for (const char* name : kWeights) {
    PhiloxStream stream(3, 0);
    for (float& value : engine.edit<float>(name))
      value = 0.1F * static_cast<float>(stream.normal());
  }
}

// Evaluates the longest rows: the arena of that program may be the largest.
std::vector<float> evaluated(Engine& engine, const choose::RunPlan& plan) {
  fill_input(engine, "x", 0, 9);
  engine.run(engine.eval(1));
  std::vector<std::byte> buffer;
  const auto y = engine.output<float>(engine.eval(1), "y", plan.micro_batch * kWidth, buffer);
  engine.check_memory();
  EXPECT_EQ(engine.measured_arena_bytes(), plan.arena_bytes);
  return {y.begin(), y.end()};
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights, outputs;
  bool operator==(const Trained&) const = default;
};

// Trains at both lengths. The plan is kept to the byte, and the validator takes it.
Trained trained(const choose::RunPlanRequest& request, const choose::RunPlan& plan,
                const Backend& backend) {
  for (const choose::PlannedProgram& program : plan.train)
    EXPECT_EQ(plan::check(program.lowered.problem, program.plan), std::vector<std::string>{});
  Engine engine(plan, backend);
  Trained found;
  set_weights(engine);
  for (int64_t i = 0; i < 4; ++i) {
    UpdateRule rule;
    rule.optimizer = request.recipe.optimizer;
    rule.schedule.kind = ScheduleKind::constant;
    rule.rates = {0.05};
    const UpdateCounts done{.drawn = i, .schedule = i, .optimizer = i};
    found.losses.push_back(run_update(engine, Batch(request.lengths[static_cast<size_t>(i % 2)]),
                                      {.counts = done}, rule, KeptBuffers(engine))
                               .loss);
  }
  engine.run_prologue();
  found.outputs = evaluated(engine, plan);
  for (const char* name : kWeights) {
    const auto values = engine.view<float>(name);
    found.weights.insert(found.weights.end(), values.begin(), values.end());
  }
  return found;
}

choose::RunPlanRequest with(choose::RunPlanRequest request, std::optional<bool> packs_weights) {
  request.packs_weights = packs_weights;
  return request;
}

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& node) { return *node.op->name == op; }));
}

TEST(Packed_weights, change_no_bit_in_one_micro_batch_or_several_at_any_budget) {
  const Packing backend;
  for (const double max_grad_norm : {0.0, 0.1}) {
    for (const int64_t micro_batch : {kRows, kRows / 4}) {
      SCOPED_TRACE(std::to_string(micro_batch) + " " + std::to_string(max_grad_norm));
      const choose::RunPlanRequest request = request_of(micro_batch, max_grad_norm);
      const choose::RunPlan plain = choose::make_run_plan(with(request, false), backend);
      EXPECT_TRUE(plain.packed.empty());
      choose::RunPlanRequest packed = with(request, true);
      const choose::RunPlan roomy = choose::make_run_plan(packed, backend);
      const Trained wanted = trained(request, plain, backend);
      const int64_t smallest = roomy.report.smallest_budget_bytes;
      for (const int64_t budget : {smallest, smallest + smallest / 8, smallest * 3 / 2, kLarge}) {
        packed.budget_bytes = budget;
        const choose::RunPlan plan = choose::make_run_plan(packed, backend);
        EXPECT_TRUE(plan.report.packed_weights);
        EXPECT_LE(plan.report.planned_peak_bytes, budget);
        EXPECT_TRUE(trained(request, plan, backend) == wanted) << budget;
      }
    }
  }
}

TEST(Packed_weights, are_made_once_an_update_where_micro_batches_share_them) {
  const Packing backend;
  const choose::RunPlan several =
      choose::make_run_plan(with(request_of(kRows / 4, 0.1), true), backend);
  ASSERT_TRUE(several.prologue.has_value());
  // Each of the three weights for the forward part, and two for the gradients of a state and the
  // one for that of the last, which goes on to the steps.
  EXPECT_EQ(several.packed.weights.size(), 5U);
  EXPECT_EQ(count(several.prologue->graph, "pack_weight"), 5);
  for (const choose::PlannedProgram& program : several.train) {
    EXPECT_EQ(count(program.graph, "pack_weight"), 0);
    EXPECT_EQ(count(program.graph, "matmul"), 0);
  }
  const choose::RunPlan one = choose::make_run_plan(with(request_of(kRows, 0.1), true), backend);
  EXPECT_FALSE(one.prologue.has_value());
  EXPECT_EQ(one.packed.weights.size(), 3U);                // `out` is read once
  EXPECT_EQ(count(one.train[0].graph, "pack_weight"), 2);  // of one step
  EXPECT_EQ(count(one.train[1].graph, "pack_weight"), 3);
  // Evaluation makes its own, each time: somebody may write weights meanwhile.
  for (const choose::RunPlan* plan : {&several, &one}) {
    EXPECT_EQ(count(plan->eval[1].graph, "pack_weight"), 2);
    EXPECT_EQ(count(plan->eval[1].graph, "matmul"), 1);  // by `out`
    EXPECT_EQ(count(plan->eval[0].graph, "pack_weight"), 0);
  }
}

// Both forms are tried, so packing costs nobody memory, and who has it is faster.
TEST(Packed_weights, raise_no_smallest_budget_and_are_taken_where_they_are_faster) {
  const Packing backend;
  for (const int64_t micro_batch : {kRows, kRows / 4, int64_t{0}}) {
    const choose::RunPlanRequest request = request_of(micro_batch, 0.1);
    const choose::RunPlan plain = choose::make_run_plan(with(request, false), backend);
    const choose::RunPlan free = choose::make_run_plan(request, backend);
    EXPECT_EQ(free.report.smallest_budget_bytes, plain.report.smallest_budget_bytes);
    EXPECT_LE(free.report.step_seconds, plain.report.step_seconds);
    EXPECT_TRUE(free.report.packed_weights);
    EXPECT_GT(choose::make_run_plan(with(request, true), backend).report.smallest_budget_bytes,
              plain.report.smallest_budget_bytes);
    choose::RunPlanRequest least = request;
    least.budget_bytes = plain.report.smallest_budget_bytes;
    const choose::RunPlan smallest = choose::make_run_plan(least, backend);
    EXPECT_FALSE(smallest.report.packed_weights);
    double before = smallest.report.step_seconds;
    for (int64_t eighths = 9; eighths <= 16; ++eighths) {
      const int64_t budget = plain.report.smallest_budget_bytes * eighths / 8;
      least.budget_bytes = budget;
      const double seconds = choose::make_run_plan(least, backend).report.step_seconds;
      EXPECT_LE(seconds, before) << budget;
      before = seconds;
    }
  }
}

TEST(Packed_weights, change_no_bit_and_no_smallest_budget_of_evaluation_alone) {
  const Packing backend;
  choose::RunPlanRequest request = request_of(kRows, 0);
  request.trains = false;
  const choose::RunPlan plain = choose::make_run_plan(with(request, false), backend);
  const choose::RunPlan packed = choose::make_run_plan(request, backend);
  EXPECT_FALSE(plain.report.packed_weights);
  EXPECT_TRUE(packed.report.packed_weights);
  EXPECT_EQ(count(packed.eval[1].graph, "pack_weight"), 2);  // what several steps read
  EXPECT_EQ(packed.report.smallest_budget_bytes, plain.report.smallest_budget_bytes);
  EXPECT_LT(packed.report.step_seconds, plain.report.step_seconds);
  choose::RunPlanRequest least = request;
  least.budget_bytes = plain.report.smallest_budget_bytes;
  const choose::RunPlan smallest = choose::make_run_plan(least, backend);
  EXPECT_FALSE(smallest.report.packed_weights);
  std::vector<std::vector<float>> outputs;
  for (const choose::RunPlan* plan : {&plain, &packed, &smallest}) {
    EXPECT_EQ(plan::check(plan->eval[1].lowered.problem, plan->eval[1].plan),
              std::vector<std::string>{});
    EXPECT_EQ(plan->report.planned_peak_bytes, least.process_bytes + plan->residents.total_bytes() +
                                                   round_up(plan->arena_bytes, kPageBytes));
    Engine engine(*plan, backend);
    set_weights(engine);
    outputs.push_back(evaluated(engine, *plan));
  }
  EXPECT_TRUE(outputs[1] == outputs[0]);
  EXPECT_TRUE(outputs[2] == outputs[0]);
}

int64_t fused_steps(const choose::RunPlan& plan) {
  int64_t count = 0;
  for (const choose::PlannedProgram& program : plan.train)
    count += std::count_if(program.plan.steps.begin(), program.plan.steps.end(),
                           [](const plan::Step& step) { return step.fused == plan::Fused::sums; });
  return count;
}

// Gradients of several steps of the net as one product.
TEST(Fused_steps, change_no_bit_and_no_smallest_budget) {
  for (const int64_t micro_batch : {kRows, kRows / 4}) {
    choose::RunPlanRequest request = request_of(micro_batch, 0.1);
    request.lengths = {1, 200};  // activations are more than the scratch of a kernel
    const Packing apart(/*fuses=*/false);
    const Packing fusing;
    const choose::RunPlan plain = choose::make_run_plan(request, apart);
    const Trained wanted = trained(request, plain, apart);
    EXPECT_EQ(fused_steps(plain), 0);
    const choose::RunPlan fused = choose::make_run_plan(request, fusing);
    EXPECT_GT(fused_steps(fused), 0);
    EXPECT_TRUE(trained(request, fused, fusing) == wanted);
    EXPECT_EQ(fused.report.smallest_budget_bytes, plain.report.smallest_budget_bytes);
    EXPECT_LE(fused.report.step_seconds, plain.report.step_seconds);
    choose::RunPlanRequest least = request;
    least.budget_bytes = plain.report.smallest_budget_bytes;
    EXPECT_TRUE(trained(request, choose::make_run_plan(least, fusing), fusing) == wanted);
  }
}

TEST(Packed_weights, are_a_part_of_a_saved_plan) {
  const Packing backend;
  const auto file =
      std::filesystem::temp_directory_path() / ("packed_" + std::to_string(getpid()) + ".json");
  for (const int64_t micro_batch : {kRows, kRows / 4}) {
    for (const bool packs_weights : {false, true}) {
      const choose::RunPlanRequest request = request_of(micro_batch, 0.1);
      const choose::RunPlan plan = choose::make_run_plan(with(request, packs_weights), backend);
      choose::write_saved_plan(file.string(), plan);
      const choose::SavedPlan saved = choose::read_saved_plan(file.string());
      EXPECT_EQ(saved.packs_weights, packs_weights);
      choose::RunPlanRequest again = with(request, saved.packs_weights);
      again.saved = &saved;
      again.two_pass_clip = saved.has_two_passes;
      const choose::RunPlan replayed = choose::make_run_plan(again, backend);
      EXPECT_EQ(replayed.packed, plan.packed);
      EXPECT_EQ(replayed.arena_bytes, plan.arena_bytes);
      EXPECT_TRUE(trained(request, replayed, backend) == trained(request, plan, backend));
      // It is of this form only.
      again.packs_weights = !packs_weights;
      EXPECT_THROW((void)choose::make_run_plan(again, backend), Error);
    }
  }
  std::filesystem::remove(file);
}

TEST(Packed_weights, are_not_offered_by_a_backend_that_does_not_gain) {
  const auto cpu = make_cpu_backend({.threads = 2, .profile = default_profile()});
  class Without final : public Backend {
   public:
    explicit Without(const Backend& cpu) : cpu_(cpu) {}
    [[nodiscard]] std::string name() const override { return cpu_.name(); }
    [[nodiscard]] int64_t alignment() const override { return cpu_.alignment(); }
    [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
      return cpu_.storage_bytes(type);
    }
    [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
      return cpu_.select(spec);
    }
    [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
      return cpu_.create(spec);
    }
    [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
      return cpu_.create_queue();
    }

   private:
    const Backend& cpu_;
  };
  const choose::RunPlan plan = choose::make_run_plan(with(request_of(0, 0.1), true), Without(*cpu));
  EXPECT_FALSE(plan.report.packed_weights);
  EXPECT_TRUE(plan.packed.empty());
}

}  // namespace
}  // namespace snug::session
