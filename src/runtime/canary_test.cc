// SPDX-License-Identifier: Apache-2.0
#include "runtime/canary.h"

#include <gtest/gtest.h>

#include "backend/guarded_testing.h"

namespace snug::runtime {
namespace {

constexpr int64_t kBytes = 3 * kPartBytes + 100;

// Blocks that the host looks into, and one that it copies from.
class Canary : public testing::TestWithParam<bool> {
 public:
  Canary() {
    if (GetParam())
      queue_ = std::make_unique<GuardedQueue>(1);
    else
      queue_ = std::make_unique<HostQueue>(1, Subnormals::kept);
    block = queue_->create_block(kBytes, {});
  }
  void write(int64_t place, std::byte value) { block->copy_in(place, {&value, 1}); }

 private:
  std::unique_ptr<Queue> queue_;

 public:
  std::unique_ptr<MemoryBlock> block;
};

TEST_P(Canary, what_was_written_over_is_found_to_the_byte) {
  constexpr int64_t kBegin = 50;
  for (const int64_t bytes :
       {int64_t{1}, int64_t{64}, int64_t{4096}, int64_t{10'000}, kPartBytes, 2 * kPartBytes + 7}) {
    const ByteRange range = {kBegin, kBegin + bytes};
    block->fill({0, kBytes}, std::byte{0});
    lay_canary(*block, range);
    EXPECT_FALSE(first_changed(*block, range).has_value());
    EXPECT_EQ(written_end(*block, range), 0);
    for (const int64_t at : {int64_t{0}, bytes / 2, bytes - 1}) {
      lay_canary(*block, range);
      write(kBegin + at, std::byte{0});
      EXPECT_EQ(first_changed(*block, range), at);
      EXPECT_EQ(written_end(*block, range), at + 1);
    }
    EXPECT_EQ(first_changed(*block, range, std::byte{0}),
              bytes > 1 ? std::optional<int64_t>(0) : std::nullopt);
  }
  EXPECT_FALSE(first_changed(*block, {}).has_value());
}

TEST_P(Canary, a_fence_sees_both_sides_of_a_range_and_not_its_neighbours_ranges) {
  const std::vector<ByteRange> ranges = {{0, 64}, {100, 200}, {kBytes - 10, kBytes}};
  Fence fence(*block);
  for (const int64_t inside : {int64_t{0}, int64_t{63}, int64_t{100}, int64_t{199}, kBytes - 1}) {
    fence.put_up(ranges);
    write(inside, std::byte{7});
    EXPECT_EQ(fence.first_changed(), std::nullopt) << inside;
  }
  for (const int64_t beside :
       {int64_t{64}, int64_t{99}, int64_t{200}, int64_t{263}, kBytes - 11, kBytes - 74}) {
    fence.put_up(ranges);
    write(beside, std::byte{7});
    EXPECT_EQ(fence.first_changed(), beside);
    write(beside, std::byte{0});
  }
  fence.put_up(ranges);
  write(300, std::byte{7});
  EXPECT_EQ(fence.first_changed(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Canary, testing::Bool(), [](const auto& test) {
  return test.param ? "of_another_memory" : "of_the_host";
});

}  // namespace
}  // namespace snug::runtime
