// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/stop.h"
#include "base/units.h"
#include "snug/error.h"

namespace snug {
namespace {

std::byte* map(int64_t bytes) {
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) return static_cast<std::byte*>(mapped);
  throw Error(ErrorCode::out_of_budget, "memory",
              "the system refused to map " + format_bytes(bytes) + ": " + std::strerror(errno),
              "lower --memory, or raise the process's address space limit");
}

// Addresses alone: nothing is written yet.
std::byte* map_at_multiple(int64_t bytes, int64_t multiple) {
  std::byte* mapped = map(bytes + multiple);
  const auto begin = reinterpret_cast<int64_t>(mapped);
  const int64_t before = round_up(begin, multiple) - begin;
  if (before > 0) munmap(mapped, static_cast<size_t>(before));
  if (before < multiple) munmap(mapped + before + bytes, static_cast<size_t>(multiple - before));
  return mapped + before;
}

}  // namespace

MappedBlock::MappedBlock(int64_t bytes)
    : mapped_bytes_(round_up(std::max<int64_t>(bytes, 1), kPageBytes) + kPageBytes) {
  if (bytes < kLargePageBytes) {
    data_ = map(mapped_bytes_);
  } else {
    data_ = map_at_multiple(mapped_bytes_, kLargePageBytes);
#ifdef MADV_HUGEPAGE
    (void)madvise(data_, static_cast<size_t>(mapped_bytes_), MADV_HUGEPAGE);  // a wish
#endif
  }
  mprotect(data_ + mapped_bytes_ - kPageBytes, static_cast<size_t>(kPageBytes), PROT_NONE);
}

MappedBlock::~MappedBlock() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(mapped_bytes_));
}

void fill_bytes(std::span<std::byte> bytes, std::byte value) {
  constexpr size_t kAtOnce = size_t{16} << 20;
  while (!bytes.empty()) {
    stop_point();
    const size_t count = std::min(kAtOnce, bytes.size());
    std::memset(bytes.data(), std::to_integer<int>(value), count);
    bytes = bytes.subspan(count);
  }
}

}  // namespace snug
