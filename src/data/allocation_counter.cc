// SPDX-License-Identifier: Apache-2.0
// Replaces operator new in the test program by one that counts.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/data_testing.h"

namespace {

std::atomic<int64_t> g_calls{0};
std::atomic<int64_t> g_live{0};
std::atomic<int64_t> g_peak{0};

void* allocate(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ++g_calls;
  const int64_t live = g_live += static_cast<int64_t>(malloc_usable_size(memory));
  if (live > g_peak) g_peak = live;
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  g_live -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
// std::stable_sort asks for its buffer this way.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }

namespace snug::data {

int64_t AllocationCounter::calls() { return g_calls; }
int64_t AllocationCounter::live_bytes() { return g_live; }
int64_t AllocationCounter::peak_bytes() { return g_peak; }
void AllocationCounter::restart_peak() { g_peak = g_live.load(); }

}  // namespace snug::data
