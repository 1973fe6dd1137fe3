// SPDX-License-Identifier: Apache-2.0
// Stands in for malloc in the test program; so it is not built with sanitizers.
#include "backend/cpu/allocation_testing.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {
std::atomic<bool> is_counting{false};
std::atomic<int64_t> blocks{0};
std::atomic<int64_t> all_bytes{0};
std::atomic<int64_t> largest_bytes{0};
std::atomic<int64_t> live_blocks{0};

void count_block(size_t bytes) {
  if (!is_counting) return;
  ++blocks;
  ++live_blocks;
  const auto size = static_cast<int64_t>(bytes);
  all_bytes += size;
  int64_t seen = largest_bytes;
  while (size > seen && !largest_bytes.compare_exchange_weak(seen, size)) {
  }
}
}  // namespace

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): glibc's own
void* __libc_malloc(size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void __libc_free(void* block);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(size_t bytes) {
  count_block(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_block(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  if (block == nullptr) count_block(bytes);
  return __libc_realloc(block, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  count_block(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count_block(bytes);
  return __libc_memalign(alignment, bytes);
}
void free(void* block) {
  if (is_counting && block != nullptr) --live_blocks;
  __libc_free(block);
}
}

namespace snug {

Allocations count_allocations(const std::function<void()>& work) {
  blocks = all_bytes = largest_bytes = live_blocks = 0;
  is_counting = true;
  work();
  is_counting = false;
  return {.blocks = blocks,
          .bytes = all_bytes,
          .largest_bytes = largest_bytes,
          .left_over = live_blocks};
}

}  // namespace snug
