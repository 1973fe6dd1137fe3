// SPDX-License-Identifier: Apache-2.0
// A few long pieces of work that know nothing of each other, on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace snug {

/// Runs work(0) .. work(count - 1), each once, on at most `threads` threads of the one parallel
/// loop (threads.h); who is free takes the next. All of them compute as the caller does (float
/// mode) and stop where it stops. Where some throw, the error of the first is thrown behind all.
void run_tasks(int threads, int64_t count, const std::function<void(int64_t)>& work);

/// Threads that such work may run on: the cores of this process; 1 where a loop on more would never
/// end (check_threads).
[[nodiscard]] int usable_threads();

}  // namespace snug
