// SPDX-License-Identifier: Apache-2.0
// Planted errors: a kernel that writes where it must not is found, wherever that is; a split that
// computes something else is told from rounding.
#include <gtest/gtest.h>

#include "io/file.h"
#include "io/test_folder.h"
#include "snug/error.h"
#include "train/testing.h"
#include "verbs/split_check.h"

namespace snug::verbs {

using train::TestRun;

namespace {

/// The CPU's kernels, but one op's writes a float some bytes behind its first output.
class Overrunning : public Backend {
 public:
  Overrunning(std::string op, int64_t distance) : op_(std::move(op)), distance_(distance) {}
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  [[nodiscard]] int64_t alignment() const override { return inner_->alignment(); }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return inner_->storage_bytes(type);
  }
  // Every kernel runs by itself.
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    KernelChoice choice = inner_->select(spec);
    choice.row_form = {};
    return choice;
  }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
    return inner_->create_queue();
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    std::unique_ptr<Kernel> kernel = inner_->create(spec);
    if (*spec.op->name != op_) return kernel;
    return std::make_unique<TooFar>(std::move(kernel), storage_bytes(spec.outputs[0]) + distance_);
  }

 private:
  class TooFar : public Kernel {
   public:
    TooFar(std::unique_ptr<Kernel> inner, int64_t offset)
        : inner_(std::move(inner)), offset_(offset) {}
    [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
      const ErrorCode code = inner_->run(launch);
      const float value = 1.25f;
      std::memcpy(launch.outputs[0] + offset_, &value, sizeof value);
      return code;
    }

   private:
    std::unique_ptr<Kernel> inner_;
    int64_t offset_;
  };

  std::unique_ptr<Backend> inner_ = train::cpu(1);
  std::string op_;
  int64_t distance_;
};

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.what();
  }
  return "none";
}

TEST(Canary, one_float_past_an_output_is_found_in_the_first_run) {
  for (const char* op : {"gelu", "layer_norm", "adamw", "embedding"}) {
    const Overrunning backend(op, 0);
    TestRun run(backend, "none", 4, 4);
    run.initialize_cpu();
    const std::string found = error_of([&] { (void)run.update_cpu(0); });
    EXPECT_NE(found.find("wrote beside its outputs"), std::string::npos) << op << ": " << found;
    EXPECT_NE(found.find(op), std::string::npos) << found;
  }
}

TEST(Canary, a_write_to_dead_bytes_far_from_any_operand_is_found_where_they_are_poisoned) {
  const Overrunning backend("embedding", 65536);
  TestRun run(backend, "none", 8, 8);
  run.initialize_cpu();
  run.engine->set_poisoning(true);
  const std::string found = error_of([&] { (void)run.update_cpu(0); });
  EXPECT_NE(found.find("belong to nothing"), std::string::npos) << found;
}

TEST(Canary, gaps_between_resident_values_and_behind_the_arena_are_watched) {
  const auto backend = train::cpu();
  TestRun run(*backend, "none", 4, 4);
  run.initialize_cpu();
  (void)run.update_cpu(0);
  run.engine->check_memory();
  const auto bias = run.engine->edit<float>("classifier.bias");
  float* behind = bias.data() + bias.size();
  const float before = *behind;
  *behind = 1;
  EXPECT_NE(error_of([&] { run.engine->check_memory(); }).find("past the end of classifier.bias"),
            std::string::npos);
  *behind = before;
  run.engine->check_memory();
}

TEST(Canary, the_arenas_measure_is_what_was_written) {
  const auto backend = train::cpu();
  TestRun run(*backend, "none", 4, 4);
  run.engine->check_memory();
  EXPECT_EQ(run.engine->measured_arena_bytes(), 0);  // nothing ran yet
  run.initialize_cpu();
  (void)run.update_cpu(0);
  EXPECT_EQ(run.engine->measured_arena_bytes(), 0);  // nobody looked yet
  run.engine->check_memory();
  EXPECT_EQ(run.engine->measured_arena_bytes(), run.plan.arena_bytes);
}

/// A run on a few rows of text, planned at the given split.
struct SplitTest {
  io::TestFolder folder;
  RunConfig config;
  RunOptions options;
  Machine machine{1};

  explicit SplitTest(const std::string& optimizer) {
    std::string rows;
    for (int i = 0; i < 24; ++i) {
      rows += R"({"text":")" +
              std::string(static_cast<size_t>(1 + i % 7), static_cast<char>('a' + i)) + R"( b c )" +
              std::string(static_cast<size_t>(i % 5), 'd') + R"(","label":")" +
              (i % 3 == 0 ? "yes" : "no") + "\"}\n";
    }
    io::write_file(folder / "rows.jsonl", rows);
    config.model = "bert-tiny";
    config.train_file = folder / "rows.jsonl";
    config.cache_dir = folder.path();
    config.set("vocab_size", "100");
    config.set("max_seq_length", "16");
    config.set("train_batch_size", "8");
    config.set("validation_split", "0");
    config.set("memory", "4GiB");
    config.set("optim", optimizer);
  }
  [[nodiscard]] SplitDifference compare(int64_t first, int64_t second,
                                        double second_smoothing = 0) const {
    const run_rows::WorkFolder work(config);
    RunSetup setup = open_setup(config, options, work, {});
    const SessionPlan a = plan_setup(config, options, setup, machine, first).plan;
    setup.model.settings.label_smoothing = second_smoothing;
    setup.network = run_model::network_of(setup.model);
    const SessionPlan b = plan_setup(config, options, setup, machine, second).plan;
    return compare_splits({config, setup, folder / "split"}, a, b);
  }
};

TEST(SplitCheck, splits_differ_by_rounding_and_other_computations_by_more) {
  for (const char* optimizer : {"adamw_torch", "sgd"}) {
    const SplitTest test(optimizer);
    for (const auto& [first, second] : {std::pair<int64_t, int64_t>{8, 4}, {4, 1}, {3, 8}}) {
      const SplitDifference same = test.compare(first, second);
      EXPECT_TRUE(same.is_rounding()) << optimizer << " " << first << " against " << second << ": "
                                      << same.found << " of " << same.allowed;
      EXPECT_LT(same.allowed, 0.01 * same.gradient) << optimizer;
      const SplitDifference other = test.compare(first, second, 0.5);
      EXPECT_FALSE(other.is_rounding())
          << optimizer << ": " << other.found << " of " << other.allowed;
    }
  }
}

}  // namespace
}  // namespace snug::verbs
