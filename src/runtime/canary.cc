// SPDX-License-Identifier: Apache-2.0
#include "runtime/canary.h"

#include <algorithm>
#include <cstring>

namespace snug::runtime {
namespace {

constexpr size_t kChunk = 4096;

bool is_all(std::span<const std::byte> bytes, std::byte wanted) {
  // Equal to itself one byte on: the whole is one value.
  return bytes.empty() ||
         (bytes[0] == wanted && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::optional<int64_t> first_other(std::span<const std::byte> bytes, std::byte wanted) {
  for (size_t begin = 0; begin < bytes.size(); begin += kChunk) {
    const auto chunk = bytes.subspan(begin, std::min(kChunk, bytes.size() - begin));
    if (is_all(chunk, wanted)) continue;
    const auto found =
        std::find_if(chunk.begin(), chunk.end(), [&](std::byte each) { return each != wanted; });
    return static_cast<int64_t>(begin) + (found - chunk.begin());
  }
  return std::nullopt;
}

int64_t end_of_other(std::span<const std::byte> bytes, std::byte wanted) {
  size_t end = bytes.size();
  while (end > 0) {
    const size_t begin = end > kChunk ? end - kChunk : 0;
    if (!is_all(bytes.subspan(begin, end - begin), wanted)) break;
    end = begin;
  }
  while (end > 0 && bytes[end - 1] == wanted) --end;
  return static_cast<int64_t>(end);
}

}  // namespace

void lay_canary(MemoryBlock& block, ByteRange range) { block.fill(range, kCanary); }

std::optional<int64_t> first_changed(const MemoryBlock& block, ByteRange range, std::byte wanted) {
  std::optional<int64_t> found;
  for_parts(block, range, 1, [&](int64_t at, std::span<const std::byte> bytes) {
    if (found) return;
    found = first_other(bytes, wanted);
    if (found) *found += at;
  });
  return found;
}

int64_t written_end(const MemoryBlock& block, ByteRange range) {
  const int64_t part = block.host() != nullptr ? range.bytes() : kPartBytes;
  std::vector<std::byte> buffer;
  int64_t end = range.end;
  while (end > range.begin) {
    const int64_t begin = std::max(end - part, range.begin);
    const int64_t written = end_of_other(bytes_of(block, {begin, end}, buffer), kCanary);
    if (written > 0) return begin + written - range.begin;
    end = begin;
  }
  return 0;
}

bool Fence::may_change(int64_t place) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const ByteRange& range) {
    return place >= range.begin && place < range.end;
  });
}

void Fence::watch(ByteRange place) {
  Strip strip{.place = {std::max<int64_t>(place.begin, 0), std::min(place.end, block_.bytes())}};
  if (strip.place.begin >= strip.place.end) return;
  block_.copy_out(strip.place.begin,
                  std::span(strip.before).first(static_cast<size_t>(strip.place.bytes())));
  strips_.push_back(strip);
}

void Fence::put_up(std::span<const ByteRange> ranges) {
  ranges_ = ranges;
  strips_.clear();
  for (const ByteRange& range : ranges) {
    watch({range.begin - kWidth, range.begin});
    watch({range.end, range.end + kWidth});
  }
}

std::optional<int64_t> Fence::first_changed() const {
  Bytes now;
  for (const auto& [place, before] : strips_) {
    block_.copy_out(place.begin, std::span(now).first(static_cast<size_t>(place.bytes())));
    for (size_t i = 0; i < static_cast<size_t>(place.bytes()); ++i) {
      const int64_t at = place.begin + static_cast<int64_t>(i);
      if (now[i] != before[i] && !may_change(at)) return at;
    }
  }
  return std::nullopt;
}

}  // namespace snug::runtime
