// SPDX-License-Identifier: Apache-2.0
// The threads of the program: fork, join, barrier. openmp.cc gives them to oneDNN and to the
// library's loops, which ask OpenMP for theirs.
//
// OpenMP's own runtime lets a thread that waits spin for milliseconds. Where other processes want
// the cores, the thread that it waits for is not running: the spinning one takes its time away and
// a step takes twelve times as long. Sleeping at once costs a fifth of a step where nothing else
// runs. So a wait spins as long as that pays: after one that spun in vain all threads sleep at once
// for some milliseconds, for longer each time that this repeats.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace snug::cli {

class Team {
 public:
  using Body = void (*)(void* data);
  using Clock = std::chrono::steady_clock;

  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  /// Runs `body` at once in `threads` threads, the caller being the first, and waits for all. Where
  /// the caller is in a team already, or another thread uses this one, it runs once, in the caller.
  void run(Body body, void* data, int threads);
  /// Waits until every thread of the caller's team is here.
  void barrier();

  /// The calling thread's number in its team, and the size of that team.
  [[nodiscard]] static int rank();
  [[nodiscard]] static int size();

 private:
  // A number that threads wait for to change.
  class Count {
   public:
    [[nodiscard]] int get() const { return value_.load(std::memory_order_acquire); }
    void add(int difference);
    void sleep_while(int old);

   private:
    std::atomic<int> value_ = 0;
    std::atomic<int> sleepers_ = 0;
  };
  struct alignas(64) Worker {
    Count starts;         // counts up with every body for this worker
    Body body = nullptr;  // null: end
    void* data = nullptr;
    int size = 0;
    std::thread thread;
  };

  void add_worker();
  void work(Worker& worker, int rank);
  /// Returns when `count` is no longer `old`. `own` is how long the caller's own share took: a wait
  /// far longer than that is for a thread that does not run.
  void wait(Count& count, int old, Clock::duration own);
  [[nodiscard]] bool may_spin(Clock::time_point now) const;
  void spun_in_vain(Clock::time_point now);

  std::mutex used_;
  std::vector<std::unique_ptr<Worker>> workers_;
  alignas(64) Count running_;                 // workers that are not done with the present body
  alignas(64) std::atomic<int> arrived_ = 0;  // at the barrier
  Count barriers_;                            // that were passed
  // Until when nobody spins, and how long the last such time was, in ticks of Clock.
  alignas(64) std::atomic<int64_t> sleeps_until_ = 0;
  std::atomic<int64_t> sleep_ticks_ = 0;
};

}  // namespace snug::cli
