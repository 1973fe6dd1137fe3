// SPDX-License-Identifier: Apache-2.0
// A backend as one with memory of its own is: its blocks are inaccessible (a fault, not an error)
// but while its kernels run and its own copies are made, what is staged lies elsewhere, and
// launches wait until somebody asks for what they make. Computes as the backend does that it is
// made of.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/host_queue.h"
#include "base/check.h"
#include "base/mapped_block.h"
#include "base/units.h"

namespace snug {

class GuardedQueue final : public Queue {
 public:
  explicit GuardedQueue(int threads) : threads_(threads) {}

  [[nodiscard]] std::unique_ptr<MemoryBlock> create_block(int64_t bytes,
                                                          std::span<std::byte> callers) override {
    if (!callers.empty())
      throw Error(ErrorCode::unsupported, "block",
                  "the backend 'guarded' has memory of its own, and cannot use the caller's",
                  "leave block empty");
    return std::make_unique<GuardedBlock>(*this, bytes);
  }
  void begin() noexcept override {
    drain();
    outcome_ = {};
    count_ = 0;
  }
  void end() noexcept override { drain(); }
  void run(const Kernel& kernel, const Launch& launch) noexcept override {
    waiting_.emplace_back(&kernel, launch);
  }
  [[nodiscard]] Outcome wait() noexcept override {
    drain();
    count_ = 0;
    return std::exchange(outcome_, {});
  }

 private:
  class GuardedBlock final : public MemoryBlock {
   public:
    GuardedBlock(GuardedQueue& queue, int64_t bytes)
        : MemoryBlock(bytes), queue_(queue), mapped_(round_up(bytes, kPageBytes)) {
      allow(PROT_NONE);
      queue_.blocks_.push_back(this);
    }
    ~GuardedBlock() override {
      queue_.drain();
      std::erase(queue_.blocks_, this);
    }

    void allow(int protection) const {
      const auto bytes = static_cast<size_t>(round_up(this->bytes(), kPageBytes));
      SNUG_CHECK(mprotect(mapped_.data(), bytes, protection) == 0, "mprotect");
    }
    [[nodiscard]] std::byte* address(int64_t place) const override {
      return mapped_.data() + place;
    }
    [[nodiscard]] std::byte* host() const override { return nullptr; }
    void copy_in(int64_t place, std::span<const std::byte> from) override {
      change({place, place + std::ssize(from)}, [&](std::byte* to) {
        if (!from.empty()) std::memcpy(to, from.data(), from.size());
      });
    }
    void copy_out(int64_t place, std::span<std::byte> to) const override {
      change({place, place + std::ssize(to)}, [&](const std::byte* from) {
        if (!to.empty()) std::memcpy(to.data(), from, to.size());
      });
    }
    void copy_within(ByteRange from, int64_t to) override {
      change(from, [&](const std::byte* bytes) {
        std::memcpy(address(to), bytes, static_cast<size_t>(from.bytes()));
      });
    }
    void fill(ByteRange range, std::byte value) override {
      change(range, [&](std::byte* to) {
        std::memset(to, std::to_integer<int>(value), static_cast<size_t>(range.bytes()));
      });
    }
    // Other bytes than those that were there: whoever stages a range fills it.
    [[nodiscard]] std::span<std::byte> stage(ByteRange range) override {
      std::vector<std::byte>& staged = staged_[range.begin];
      staged.assign(static_cast<size_t>(range.bytes()), std::byte{0xEE});
      return staged;
    }
    void commit(ByteRange range) override {
      const std::vector<std::byte>& staged = staged_.at(range.begin);
      copy_in(range.begin, std::span(staged).first(static_cast<size_t>(range.bytes())));
    }

   private:
    template <class Change>
    void change(ByteRange range, Change apply) const {
      SNUG_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= bytes(), "a range");
      queue_.drain();
      allow(PROT_READ | PROT_WRITE);
      apply(mapped_.data() + range.begin);
      allow(PROT_NONE);
    }

    GuardedQueue& queue_;
    MappedBlock mapped_;
    std::map<int64_t, std::vector<std::byte>> staged_;
  };

  void drain() noexcept {
    if (waiting_.empty()) return;
    for (const GuardedBlock* block : blocks_) block->allow(PROT_READ | PROT_WRITE);
    const TeamFloatMode mode(threads_, Subnormals::zero);
    for (const auto& [kernel, launch] : waiting_) {
      if (outcome_.code == ErrorCode::ok) {
        const ErrorCode code = kernel->run(launch);
        if (code != ErrorCode::ok) outcome_ = {.code = code, .launch = count_};
      }
      ++count_;
    }
    waiting_.clear();
    for (const GuardedBlock* block : blocks_) block->allow(PROT_NONE);
  }

  int threads_;
  std::vector<std::pair<const Kernel*, Launch>> waiting_;
  std::vector<const GuardedBlock*> blocks_;
  Outcome outcome_;
  int64_t count_ = 0;
};

class GuardedBackend final : public Backend {
 public:
  GuardedBackend(std::unique_ptr<Backend> computes, int threads)
      : computes_(std::move(computes)), threads_(threads) {}

  [[nodiscard]] std::string name() const override { return "guarded"; }
  [[nodiscard]] int64_t alignment() const override { return computes_->alignment(); }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return computes_->storage_bytes(type);
  }
  [[nodiscard]] double kept_seconds_per_byte() const override {
    return computes_->kept_seconds_per_byte();
  }
  [[nodiscard]] double share_from_memory(double bytes) const override {
    return computes_->share_from_memory(bytes);
  }
  [[nodiscard]] WeightPanels weight_panels() const override { return computes_->weight_panels(); }
  [[nodiscard]] int64_t few_rows() const override { return computes_->few_rows(); }
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    return computes_->select(spec);
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    return computes_->create(spec);
  }
  [[nodiscard]] std::unique_ptr<Kernel> create_fused(const NodeSpec& spec,
                                                     int32_t count) const override {
    return computes_->create_fused(spec, count);
  }
  [[nodiscard]] std::unique_ptr<Kernel> create_row_program(
      std::span<const RowNode> nodes) const override {
    return computes_->create_row_program(nodes);
  }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
    return std::make_unique<GuardedQueue>(threads_);
  }

 private:
  std::unique_ptr<Backend> computes_;
  int threads_;
};

}  // namespace snug
