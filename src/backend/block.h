// SPDX-License-Identifier: Apache-2.0
// The memory of a run as its backend has it: bytes by their place in one block, copied in and out.
// Nothing here says where the bytes are. What a kernel is launched on are addresses, which nobody
// but the backend's kernels may follow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace snug {

/// Places in a block.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
  [[nodiscard]] int64_t bytes() const { return end - begin; }
};

/// Calls are ordered with the launches of the queue that made the block: a copy sees what the
/// launches before it wrote, and what a copy brings is seen by those behind it. When a call
/// returns, what is copied out is there, and what was copied in may be changed.
class MemoryBlock {
 public:
  explicit MemoryBlock(int64_t bytes) : bytes_(bytes) {}
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  virtual ~MemoryBlock() = default;

  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// For Launch; the first is a multiple of a page.
  [[nodiscard]] virtual std::byte* address(int64_t place) const = 0;
  /// The first byte, where the host may read and write the block as memory of its own while nothing
  /// runs; null where only copies reach it.
  [[nodiscard]] virtual std::byte* host() const = 0;

  virtual void copy_in(int64_t place, std::span<const std::byte> from) = 0;
  virtual void copy_out(int64_t place, std::span<std::byte> to) const = 0;
  /// From one range to another that does not overlap it.
  virtual void copy_within(ByteRange from, int64_t to) = 0;
  /// Throws Error{cancelled} between two parts of a long range.
  virtual void fill(ByteRange range, std::byte value) = 0;

  /// Memory of the host to be filled with what commit() brings to the range: the range itself where
  /// there is host(). It may be staged again without a commit. For what every micro-batch is fed:
  /// memory is kept for each range that was ever staged, and staging it again takes no more.
  [[nodiscard]] virtual std::span<std::byte> stage(ByteRange range) = 0;
  /// A staged range, or fewer bytes from its begin.
  virtual void commit(ByteRange range) = 0;

 private:
  int64_t bytes_;
};

/// What the host copies at once where it has no other way to a block.
inline constexpr int64_t kPartBytes = int64_t{256} << 10;

/// The bytes of a range to be read: the block's own where there is host(), else a copy in `buffer`.
/// Valid until anything runs.
[[nodiscard]] inline std::span<const std::byte> bytes_of(const MemoryBlock& block, ByteRange range,
                                                         std::vector<std::byte>& buffer) {
  const auto bytes = static_cast<size_t>(range.bytes());
  if (block.host() != nullptr) return {block.host() + range.begin, bytes};
  buffer.resize(bytes);
  block.copy_out(range.begin, buffer);
  return buffer;
}

/// Calls use(at, bytes) for all of a range in order, from at = 0 on: at once where there is host(),
/// else in parts of a multiple of `unit` bytes.
template <class Use>
void for_parts(const MemoryBlock& block, ByteRange range, int64_t unit, Use use) {
  const int64_t part = block.host() != nullptr ? std::max<int64_t>(range.bytes(), 1)
                                               : std::max(kPartBytes / unit, int64_t{1}) * unit;
  std::vector<std::byte> buffer;
  for (int64_t at = 0; at < range.bytes(); at += part) {
    const int64_t end = std::min(range.begin + at + part, range.end);
    use(at, bytes_of(block, {range.begin + at, end}, buffer));
  }
}

/// The same, where fill(at, bytes) writes all of the bytes.
template <class Fill>
void fill_parts(MemoryBlock& block, ByteRange range, int64_t unit, Fill fill) {
  if (block.host() != nullptr) {
    if (range.bytes() > 0)
      fill(int64_t{0}, std::span(block.host() + range.begin, static_cast<size_t>(range.bytes())));
    return;
  }
  const int64_t part = std::max(kPartBytes / unit, int64_t{1}) * unit;
  std::vector<std::byte> buffer;
  for (int64_t at = 0; at < range.bytes(); at += part) {
    buffer.resize(static_cast<size_t>(std::min(part, range.bytes() - at)));
    fill(at, std::span(buffer));
    block.copy_in(range.begin + at, buffer);
  }
}

}  // namespace snug
