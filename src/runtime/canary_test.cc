// SPDX-License-Identifier: Apache-2.0
#include "runtime/canary.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

std::vector<std::byte> block(size_t bytes) {
  std::vector<std::byte> memory(bytes);
  lay_canary(memory);
  return memory;
}

TEST(Canary, what_was_written_over_is_found_to_the_byte) {
  for (const size_t bytes : {1u, 64u, 4096u, 10'000u}) {
    std::vector<std::byte> memory = block(bytes);
    EXPECT_FALSE(first_changed(memory).has_value());
    EXPECT_EQ(written_end(memory), 0);
    for (const size_t at : {size_t{0}, bytes / 2, bytes - 1}) {
      memory = block(bytes);
      memory[at] = std::byte{0};
      EXPECT_EQ(first_changed(memory), static_cast<int64_t>(at));
      EXPECT_EQ(written_end(memory), static_cast<int64_t>(at) + 1);
    }
  }
  EXPECT_FALSE(first_changed({}).has_value());
}

TEST(Canary, a_fence_sees_both_sides_of_a_range_and_not_its_neighbours_ranges) {
  std::vector<std::byte> memory = block(512);
  const std::byte* data = memory.data();
  const std::vector<Fence::Range> ranges = {{data, data + 64}, {data + 100, data + 200}};
  Fence fence({data, data + 512});
  for (const size_t inside : {0u, 63u, 100u, 199u}) {
    fence.put_up(ranges);
    memory[inside] = std::byte{7};
    EXPECT_EQ(fence.first_changed(), nullptr) << inside;
  }
  for (const size_t beside : {64u, 99u, 200u, 263u}) {
    fence.put_up(ranges);
    memory[beside] = std::byte{7};
    EXPECT_EQ(fence.first_changed(), data + beside);
  }
}

}  // namespace
}  // namespace snug
