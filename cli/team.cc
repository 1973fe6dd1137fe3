// SPDX-License-Identifier: Apache-2.0
#include "team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "common.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace snug::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Longer than what lies between two loops of a step, shorter than another process's time slice.
constexpr Team::Clock::duration kSpin = microseconds(200);
constexpr int64_t kShortestSleep = Team::Clock::duration(milliseconds(2)).count();
constexpr int64_t kLongestSleep = Team::Clock::duration(milliseconds(64)).count();

struct Place {
  int rank = 0;
  int size = 1;
};
thread_local Place place;

// Not std::atomic's wait(): before it sleeps it calls sched_yield(), and where other processes want
// the core each call gives them a time slice.
void futex(const std::atomic<int>& word, int operation, int value) {
  static_assert(sizeof word == sizeof(int) && std::atomic<int>::is_always_lock_free);
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

void Team::Count::add(int difference) {
  value_.fetch_add(difference, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0)
    futex(value_, FUTEX_WAKE, std::numeric_limits<int>::max());
}

void Team::Count::sleep_while(int old) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old) futex(value_, FUTEX_WAIT, old);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

int Team::rank() { return place.rank; }
int Team::size() { return place.size; }

bool Team::may_spin(Clock::time_point now) const {
  return now.time_since_epoch().count() >= sleeps_until_.load(std::memory_order_relaxed);
}

void Team::spun_in_vain(Clock::time_point now) {
  const int64_t ticks = now.time_since_epoch().count();
  const int64_t last = sleep_ticks_.load(std::memory_order_relaxed);
  // Soon after the last time: the cores are still shared.
  const bool repeats = ticks - sleeps_until_.load(std::memory_order_relaxed) < last;
  const int64_t next = std::clamp(repeats ? 2 * last : 0, kShortestSleep, kLongestSleep);
  sleep_ticks_.store(next, std::memory_order_relaxed);
  sleeps_until_.store(ticks + next, std::memory_order_relaxed);
}

void Team::wait(Count& count, int old, Clock::duration own) {
  if (count.get() != old) return;
  const Clock::time_point begin = Clock::now();
  if (may_spin(begin)) {
    const Clock::time_point end = begin + std::max(kSpin, own / 4);
    Clock::time_point now = begin;
    do {
      for (int i = 0; i < 32; ++i) {
        relax();
        if (count.get() != old) return;
      }
      now = Clock::now();
    } while (now < end && may_spin(now));
    if (own != Clock::duration::zero() && now >= end) spun_in_vain(now);
  }
  count.sleep_while(old);
}

void Team::work(Worker& worker, int rank) {
  for (int done = 0;;) {
    wait(worker.starts, done, Clock::duration::zero());
    ++done;
    if (worker.body == nullptr) return;
    place = {rank, worker.size};
    worker.body(worker.data);
    running_.add(-1);
  }
}

void Team::add_worker() {
  workers_.push_back(std::make_unique<Worker>());
  Worker* worker = workers_.back().get();
  const int rank = static_cast<int>(workers_.size());
  try {
    worker->thread = std::thread([this, worker, rank] { work(*worker, rank); });
  } catch (const std::system_error&) {
    std::fputs("error: the system gives no more threads\nhint: lower --threads\n", stderr);
    std::_Exit(kUserError);
  }
}

Team::~Team() {
  for (const auto& worker : workers_) {
    worker->body = nullptr;
    worker->starts.add(1);
    worker->thread.join();
  }
}

void Team::run(Body body, void* data, int threads) {
  const Place before = place;
  std::unique_lock lock(used_, std::defer_lock);
  if (threads <= 1 || before.size > 1 || !lock.try_lock()) {
    place = {0, 1};
    body(data);
    place = before;
    return;
  }
  const int others = threads - 1;
  while (static_cast<int>(workers_.size()) < others) add_worker();
  running_.add(others);
  for (int i = 0; i < others; ++i) {
    Worker& worker = *workers_[static_cast<size_t>(i)];
    worker.body = body;
    worker.data = data;
    worker.size = threads;
    worker.starts.add(1);
  }
  const Clock::time_point begin = Clock::now();
  place = {0, threads};
  body(data);
  place = before;
  const Clock::duration own = Clock::now() - begin;
  for (int left = 0; (left = running_.get()) > 0;) wait(running_, left, own);
}

void Team::barrier() {
  if (place.size == 1) return;
  const int passed = barriers_.get();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == place.size) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_.add(1);
    return;
  }
  wait(barriers_, passed, kSpin);
}

}  // namespace snug::cli
