// SPDX-License-Identifier: Apache-2.0
// A step allocates nothing of ours; oneDNN's argument lists are few, small, freed, and the same at
// every step.
#include <gtest/gtest.h>

#include "backend/cpu/allocation_testing.h"
#include "backend/cpu/cpu_backend.h"
#include "run_model/model_network.h"
#include "train/testing.h"
#include "train/trainer.h"

namespace snug::train {
namespace {

constexpr int64_t kBlocksPerProduct = 24;
constexpr int64_t kBytesPerProduct = 4096;

int64_t products_of(const choose::PlannedProgram& program) {
  int64_t count = 0;
  for (const plan::Step& step : program.plan.steps) {
    count += program.lowered.problem.ops[step.op].name.starts_with("matmul") ? 1 : 0;
  }
  return count;
}

// Rows of 3 to 12 tokens in memory.
class MemoryRows final : public data::RowStore {
 public:
  [[nodiscard]] int64_t rows() const override { return 16; }
  [[nodiscard]] const data::Labels& labels() const override { return labels_; }
  [[nodiscard]] uint64_t content_hash() const override { return 1; }
  [[nodiscard]] int64_t most_values() const override { return 1; }
  void read_columns(int64_t row, data::RowColumns& out) const override {
    out.clear();
    out.add_integers(1)[0] = static_cast<int32_t>(row % 2);
  }
  void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const override {
    for (size_t i = 0; i < rows.size(); ++i) lengths[i] = length_of(rows[i]);
  }
  void fill(const data::MicroBatch& batch, const data::BatchBuffers& buffers) const override {
    for (int64_t i = 0; i < batch.size; ++i) {
      const int64_t row = batch.rows[static_cast<size_t>(batch.first_slot + i)];
      for (int64_t t = 0; t < batch.bucket_length; ++t) {
        const auto at = static_cast<size_t>(i * batch.bucket_length + t);
        const bool is_there = t < length_of(row);
        buffers.input_ids[at] = is_there ? static_cast<int32_t>(1 + row + t) : batch.pad_id;
        buffers.token_type_ids[at] = 0;
        buffers.attention_mask[at] = is_there ? 1 : 0;
      }
    }
  }

 private:
  static int32_t length_of(int64_t row) { return 3 + static_cast<int32_t>(row % 10); }
  data::Labels labels_;
};

TEST(Allocation, an_update_allocates_no_more_than_its_programs) {
  RunConfig config = TestRun::bert_config("all", 1.0);
  config.freeze = {"*embeddings.position_embeddings.weight"};
  const run_model::Model model = fitted_model(config);
  const MemoryRows rows;
  BatchRows batch({.rows = &rows, .task = model.task, .pad_id = 0});
  SessionOptions options = session_options_of(training_spec(config, 100));
  options.batch_rows = 4;
  options.micro_batch_size = 2;
  options.lengths = {12};
  options.memory = parse_memory("4GiB");
  options.threads = 1;
  const SessionPlan plan(run_model::network_of(model), options);
  Session session(plan);
  // The same programs alone.
  session::Engine engine(plan.impl()->plan, *plan.impl()->machine.impl().backend);
  data::TrainSampler sampler(data::Subset::all(rows.rows()),
                             [&](auto ids, auto lengths) { rows.read_lengths(ids, lengths); },
                             {.batch_size = 4, .seed = 3, .buckets = {12}});
  const auto update = [&] {
    batch.begin(sampler.next());
    const StepResult result = session.step(batch);
    EXPECT_GT(result.loss, 0);
    EXPECT_GT(result.grad_norm, 0);
  };
  update();
  const auto run_programs = [&] {
    for (int64_t piece = 0; piece < plan.report().accumulation_steps; ++piece)
      engine.train(0).run();
    engine.update()->run();
  };
  run_programs();  // the first run of a program prepares more than those that follow
  const Allocations programs = count_allocations(run_programs);
  for (int i = 0; i < 3; ++i) {
    const Allocations counted = count_allocations(update);
    EXPECT_EQ(counted.blocks, programs.blocks);
    EXPECT_EQ(counted.bytes, programs.bytes);
    EXPECT_EQ(counted.left_over, 0);
  }
}

TEST(Allocation, a_step_allocates_only_onednns_argument_lists) {
  const auto backend = make_cpu_backend({.threads = 1, .profile = default_profile()});
  TestRun run(*backend, "all", 4, 2);
  run.initialize_cpu();
  (void)run.update_cpu(0);
  int64_t first = -1;
  for (int64_t i = 1; i < 4; ++i) {
    const Allocations counted = count_allocations([&] {
      for (int64_t piece = 0; piece < run.plan.accumulation_steps; ++piece)
        run.engine->train(0).run();
      run.engine->update()->run();
    });
    const int64_t products = run.plan.accumulation_steps * products_of(run.plan.train[0]);
    EXPECT_LE(counted.blocks, kBlocksPerProduct * products);
    EXPECT_LE(counted.bytes, kBytesPerProduct * products);
    EXPECT_EQ(counted.left_over, 0);
    if (first < 0) first = counted.blocks;
    EXPECT_EQ(counted.blocks, first);
  }
  // The update program has no matrix product, so it shows our own share alone: none.
  EXPECT_EQ(count_allocations([&] { run.engine->update()->run(); }).blocks, 0);
}

}  // namespace
}  // namespace snug::train
