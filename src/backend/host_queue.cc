// SPDX-License-Identifier: Apache-2.0
#include "backend/host_queue.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/mapped_block.h"
#include "base/units.h"

namespace snug {
namespace {

class HostBlock final : public MemoryBlock {
 public:
  explicit HostBlock(int64_t bytes) : MemoryBlock(bytes), mapped_(bytes), data_(mapped_.data()) {}
  HostBlock(std::span<std::byte> callers, int64_t bytes)
      : MemoryBlock(bytes), data_(callers.data()) {
    if (std::cmp_less(callers.size(), bytes)) {
      throw Error(ErrorCode::out_of_budget, "memory",
                  "the given memory has " + std::to_string(callers.size()) +
                      " bytes, the plan needs " + std::to_string(bytes));
    }
    if (reinterpret_cast<uintptr_t>(callers.data()) % kPageBytes != 0) {
      throw Error(ErrorCode::bad_config, "memory",
                  "the given memory does not start at a multiple of 4096 bytes");
    }
  }

  [[nodiscard]] std::byte* address(int64_t place) const override { return data_ + place; }
  [[nodiscard]] std::byte* host() const override { return data_; }

  void copy_in(int64_t place, std::span<const std::byte> from) override {
    if (from.empty()) return;
    std::memcpy(at({place, place + std::ssize(from)}).data(), from.data(), from.size());
  }
  void copy_out(int64_t place, std::span<std::byte> to) const override {
    if (to.empty()) return;
    std::memcpy(to.data(), at({place, place + std::ssize(to)}).data(), to.size());
  }
  void copy_within(ByteRange from, int64_t to) override { copy_in(to, at(from)); }
  void fill(ByteRange range, std::byte value) override { fill_bytes(at(range), value); }
  [[nodiscard]] std::span<std::byte> stage(ByteRange range) override { return at(range); }
  void commit(ByteRange) override {}  // it was filled where it lies

 private:
  [[nodiscard]] std::span<std::byte> at(ByteRange range) const {
    SNUG_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= bytes(),
               "a range beside the block");
    return {data_ + range.begin, static_cast<size_t>(range.bytes())};
  }

  MappedBlock mapped_;  // empty: the caller's
  std::byte* data_;
};

}  // namespace

std::unique_ptr<MemoryBlock> HostQueue::create_block(int64_t bytes, std::span<std::byte> callers) {
  if (callers.empty()) return std::make_unique<HostBlock>(bytes);
  return std::make_unique<HostBlock>(callers, bytes);
}

void HostQueue::begin() noexcept {
  outcome_ = {};
  mode_.emplace(threads_, subnormals_);
}

void HostQueue::run(const Kernel& kernel, const Launch& launch) noexcept {
  if (outcome_.code != ErrorCode::ok) return;
  outcome_.code = kernel.run(launch);
  if (outcome_.code == ErrorCode::ok) ++outcome_.launch;
}

Queue::Outcome HostQueue::wait() noexcept { return std::exchange(outcome_, {}); }

}  // namespace snug
