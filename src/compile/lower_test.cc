// SPDX-License-Identifier: Apache-2.0
// Prices of lowered ops: how much of them is for operands that come from memory.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

// One second with operands in a cache as they usually do, three from memory, `saved` less where
// the cache holds all of a program; it holds 512 bytes, half of 1024, no more.
class Priced final : public Backend {
 public:
  explicit Priced(double saved) : saved_(saved) {}
  [[nodiscard]] std::string name() const override { return "priced"; }
  [[nodiscard]] int64_t alignment() const override { return 64; }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return byte_count(type);
  }
  [[nodiscard]] double share_from_memory(double bytes) const override {
    return bytes <= 512 ? 0 : bytes <= 1024 ? 0.5 : 1;
  }
  [[nodiscard]] KernelChoice select(const NodeSpec&) const override {
    return {.kernel = "none",
            .scratch_bytes = 0,
            .seconds = 1,
            .saved_seconds = saved_,
            .far_seconds = 3,
            .uncertainty = 0};
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec&) const override { return nullptr; }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override { return nullptr; }

 private:
  double saved_;
};

// The first op reads a weight of `rows` x 64 floats, the second what the first made; both outputs
// stay.
runtime::Lowered two_ops(int64_t rows, int64_t pieces, double saved = 0) {
  GraphBuilder builder(op_registry(), "two");
  const ValueId weight = builder.parameter("w", {DType::f32, {rows, 64}});
  const ValueId first = builder.op1("exp", {weight});
  builder.mark_output(first, "first");
  builder.mark_output(builder.op1("exp", {first}), "second");
  return lower(builder.graph(), Priced(saved), {.pieces = pieces});
}
double first_seconds(const runtime::Lowered& lowered) {
  return lowered.problem.ops.front().seconds;
}
double second_seconds(const runtime::Lowered& lowered) {
  return lowered.problem.ops.back().seconds;
}

TEST(Lower, operands_beyond_the_cache_have_the_price_of_memory) {
  EXPECT_EQ(second_seconds(two_ops(1, 1)), 1);
  EXPECT_EQ(second_seconds(two_ops(2, 1)), 2);
  EXPECT_EQ(second_seconds(two_ops(8, 1)), 3);
}

TEST(Lower, a_piece_of_a_batch_is_priced_as_the_whole_and_weights_as_they_are) {
  EXPECT_EQ(second_seconds(two_ops(2, 4)), second_seconds(two_ops(8, 1)));
  EXPECT_EQ(first_seconds(two_ops(1, 3)), 2);  // 256 + 3 * 256 bytes
  EXPECT_EQ(second_seconds(two_ops(1, 3)), 3);
}

TEST(Lower, a_program_that_stays_in_the_cache_has_the_price_of_the_cache) {
  // 768 bytes in all, of which the cache holds half.
  EXPECT_EQ(second_seconds(two_ops(1, 1, 0.75)), 0.625);
  EXPECT_EQ(two_ops(1, 1, 0.75).seconds_uncertainty, 0.375 / 0.625);
  EXPECT_EQ(second_seconds(two_ops(8, 1, 0.75)), 3);  // none
  EXPECT_EQ(second_seconds(two_ops(1, 4, 0.75)), second_seconds(two_ops(1, 4)));
}

TEST(Lower, only_operands_about_as_large_as_the_cache_make_it_uncertain) {
  EXPECT_EQ(two_ops(1, 1).seconds_uncertainty, 0);
  EXPECT_EQ(two_ops(2, 1).seconds_uncertainty, 0.5);
  EXPECT_EQ(two_ops(8, 1).seconds_uncertainty, 0);
}

}  // namespace
}  // namespace snug::compile
