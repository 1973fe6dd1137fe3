// SPDX-License-Identifier: Apache-2.0
#include "base/given_threads.h"

#include <atomic>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

namespace snug {
namespace {

constexpr const char* kMoreThreads =
    "raise the limit of processes or of address space (ulimit -u, ulimit -v), or lower that of a "
    "thread's stack (ulimit -s)";

}  // namespace

bool check_given_threads(int threads) {
  static std::atomic<int> most_given = 1;
  if (threads <= most_given.load(std::memory_order_relaxed)) return false;
  std::latch end(1);
  std::vector<std::jthread> given;
  try {
    while (std::cmp_less(given.size() + 1, threads)) given.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error& error) {
    end.count_down();
    throw Error(ErrorCode::unsupported, "threads",
                "are " + std::to_string(threads) + ", and the system gives this process " +
                    std::to_string(given.size() + 1) + ": " + error.what(),
                std::string("take fewer, or ") + kMoreThreads);
  }
  end.count_down();
  most_given.store(threads, std::memory_order_relaxed);
  return true;
}

Error no_thread(const std::string& purpose, const std::system_error& error) {
  return {ErrorCode::unsupported, "threads",
          "no thread can be had to " + purpose + ": " + error.what(), kMoreThreads};
}

}  // namespace snug
