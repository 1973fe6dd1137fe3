// SPDX-License-Identifier: Apache-2.0
// What every queue and block has to do, whoever's memory it is.
#include "backend/queue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <numeric>

#include "backend/guarded_testing.h"

namespace snug {
namespace {

constexpr int64_t kBytes = 2 * kPartBytes + 4096;

class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(std::function<ErrorCode(const Launch&)> run) : run_(std::move(run)) {}
  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override { return run_(launch); }

 private:
  std::function<ErrorCode(const Launch&)> run_;
};

std::unique_ptr<Queue> make_queue(bool is_guarded) {
  if (is_guarded) return std::make_unique<GuardedQueue>(1);
  return std::make_unique<HostQueue>(1, Subnormals::kept);
}

class Queues : public testing::TestWithParam<bool> {
 public:
  std::unique_ptr<Queue> queue = make_queue(GetParam());
  std::unique_ptr<MemoryBlock> block = queue->create_block(kBytes, {});

  [[nodiscard]] std::vector<std::byte> read(int64_t place, int64_t count) const {
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    block->copy_out(place, bytes);
    return bytes;
  }
};

std::vector<std::byte> counted(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

TEST_P(Queues, a_block_begins_as_zeros_at_a_page_and_takes_what_is_copied) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->address(0)) % kPageBytes, 0u);
  EXPECT_EQ(block->address(100), block->address(0) + 100);
  EXPECT_EQ(read(0, kBytes), std::vector<std::byte>(static_cast<size_t>(kBytes)));
  const std::vector<std::byte> bytes = counted(1000);
  block->copy_in(7, bytes);
  EXPECT_EQ(read(7, 1000), bytes);
  block->copy_within({7, 1007}, 3000);
  EXPECT_EQ(read(3000, 1000), bytes);
  block->fill({3010, 3020}, std::byte{9});
  EXPECT_EQ(read(3010, 10), std::vector<std::byte>(10, std::byte{9}));
  EXPECT_EQ(read(3020, 980), std::vector<std::byte>(bytes.begin() + 20, bytes.end()));
  EXPECT_EQ(read(3000, 10), std::vector<std::byte>(bytes.begin(), bytes.begin() + 10));
  EXPECT_THROW(block->copy_in(kBytes - 999, bytes), Error);
}

TEST_P(Queues, what_is_staged_is_there_behind_the_commit_and_no_more_of_it) {
  for (int round = 0; round < 2; ++round) {
    const std::span<std::byte> first = block->stage({64, 128});
    const std::span<std::byte> second = block->stage({256, 300});
    std::ranges::fill(first, std::byte{1});
    std::ranges::fill(second, std::byte{2});
    block->commit({64, 128});
    block->commit({256, 260});
    EXPECT_EQ(read(64, 64), std::vector<std::byte>(64, std::byte{1}));
    EXPECT_EQ(read(256, 4), std::vector<std::byte>(4, std::byte{2}));
    if (block->host() == nullptr) {
      EXPECT_EQ(read(260, 40), std::vector<std::byte>(40));
    }
  }
}

TEST_P(Queues, parts_cover_a_range_once_in_whole_units) {
  const std::vector<std::byte> bytes = counted(kBytes - 96);
  int64_t next = 0;
  fill_parts(*block, {96, kBytes}, 12, [&](int64_t at, std::span<std::byte> part) {
    EXPECT_EQ(at, next);
    EXPECT_EQ(at % 12, 0);
    next += std::ssize(part);
    std::copy_n(bytes.begin() + at, part.size(), part.begin());
  });
  EXPECT_EQ(next, kBytes - 96);
  std::vector<std::byte> found;
  for_parts(*block, {96, kBytes}, 12, [&](int64_t at, std::span<const std::byte> part) {
    EXPECT_EQ(at, std::ssize(found));
    found.insert(found.end(), part.begin(), part.end());
  });
  EXPECT_EQ(found, bytes);
  fill_parts(*block, {5, 5}, 12, [](int64_t, auto) { FAIL(); });
  for_parts(*block, {5, 5}, 12, [](int64_t, auto) { FAIL(); });
  const int64_t wide = 2 * kPartBytes;  // a unit is never cut
  for_parts(*block, {0, wide}, wide,
            [&](int64_t, auto part) { EXPECT_EQ(std::ssize(part), wide); });
}

TEST_P(Queues, kernels_run_in_order_and_copies_see_them) {
  const FunctionKernel next([](const Launch& launch) {
    *launch.outputs[0] = static_cast<std::byte>(2 * std::to_integer<int>(*launch.inputs[0]) + 1);
    return ErrorCode::ok;
  });
  const std::byte* const in = block->address(0);
  std::byte* const out = block->address(0);
  const Launch launch{.inputs = {&in, 1}, .outputs = {&out, 1}};
  queue->begin();
  for (int i = 0; i < 3; ++i) queue->run(next, launch);
  EXPECT_EQ(read(0, 1)[0], std::byte{7});
  block->fill({0, 1}, std::byte{1});
  queue->run(next, launch);
  block->copy_within({0, 1}, 1);
  queue->run(next, launch);
  EXPECT_EQ(queue->wait().code, ErrorCode::ok);
  queue->end();
  EXPECT_EQ(read(0, 2), (std::vector<std::byte>{std::byte{7}, std::byte{3}}));
}

TEST_P(Queues, behind_one_that_failed_none_runs_and_the_next_program_does) {
  int runs = 0;
  const FunctionKernel good([&](const Launch&) { return ++runs, ErrorCode::ok; });
  const FunctionKernel bad([](const Launch&) { return ErrorCode::bad_data; });
  queue->begin();
  for (const Kernel* kernel : {&good, &good, &bad, &good, &bad}) queue->run(*kernel, {});
  const Queue::Outcome outcome = queue->wait();
  EXPECT_EQ(outcome.code, ErrorCode::bad_data);
  EXPECT_EQ(outcome.launch, 2);
  EXPECT_EQ(runs, 2);
  queue->run(good, {});
  queue->run(bad, {});
  EXPECT_EQ(queue->wait().launch, 1);
  queue->run(bad, {});  // nobody asked
  queue->end();
  queue->begin();
  queue->run(good, {});
  EXPECT_EQ(queue->wait().code, ErrorCode::ok);
  queue->end();
  EXPECT_EQ(runs, 4);
}

INSTANTIATE_TEST_SUITE_P(Memory, Queues, testing::Bool(), [](const auto& test) {
  return test.param ? "of_its_own" : "of_the_host";
});

TEST(Queues, the_callers_memory_is_used_or_refused_by_what_is_wrong) {
  HostQueue queue(1, Subnormals::kept);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, 8192)), &std::free);
  const auto block = queue.create_block(8000, {memory.get(), 8192});
  EXPECT_EQ(block->host(), memory.get());
  EXPECT_EQ(block->bytes(), 8000);
  const auto code_of = [&](int64_t bytes, std::span<std::byte> given) {
    try {
      (void)queue.create_block(bytes, given);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::ok;
  };
  EXPECT_EQ(code_of(8193, {memory.get(), 8192}), ErrorCode::out_of_budget);
  EXPECT_EQ(code_of(64, {memory.get() + 64, 4096}), ErrorCode::bad_config);
}

TEST(QueuesDeathTest, the_guarded_backends_memory_cannot_be_touched) {
  GuardedQueue queue(1);
  const auto block = queue.create_block(4096, {});
  const auto* byte = static_cast<volatile const std::byte*>(block->address(0));
  EXPECT_EXIT((void)*byte, testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace snug
