// SPDX-License-Identifier: Apache-2.0
#include "runtime/canary.h"

#include <algorithm>
#include <cstring>

#include "base/mapped_block.h"

namespace snug {
namespace {

constexpr size_t kBlock = 4096;

bool is_all(std::span<const std::byte> bytes, std::byte wanted) {
  // Equal to itself one byte on: the whole is one value.
  return bytes.empty() ||
         (bytes[0] == wanted && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

void lay_canary(std::span<std::byte> bytes) { fill_bytes(bytes, kCanary); }

std::optional<int64_t> first_changed(std::span<const std::byte> bytes, std::byte wanted) {
  for (size_t begin = 0; begin < bytes.size(); begin += kBlock) {
    const auto block = bytes.subspan(begin, std::min(kBlock, bytes.size() - begin));
    if (is_all(block, wanted)) continue;
    const auto found =
        std::find_if(block.begin(), block.end(), [&](std::byte each) { return each != wanted; });
    return static_cast<int64_t>(begin) + (found - block.begin());
  }
  return std::nullopt;
}

int64_t written_end(std::span<const std::byte> bytes) {
  size_t end = bytes.size();
  while (end > 0) {
    const size_t begin = end > kBlock ? end - kBlock : 0;
    if (!is_all(bytes.subspan(begin, end - begin), kCanary)) break;
    end = begin;
  }
  while (end > 0 && bytes[end - 1] == kCanary) --end;
  return static_cast<int64_t>(end);
}

void Fence::watch(const std::byte* begin, const std::byte* end, std::span<const Range> ranges) {
  for (const std::byte* at = std::max(begin, memory_.first); at < std::min(end, memory_.second);
       ++at) {
    const bool may_change = std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      return at >= range.first && at < range.second;
    });
    if (!may_change) watched_.emplace_back(at, *at);
  }
}

void Fence::put_up(std::span<const Range> ranges) {
  watched_.clear();
  for (const Range& range : ranges) {
    watch(range.first - kWidth, range.first, ranges);
    watch(range.second, range.second + kWidth, ranges);
  }
}

const std::byte* Fence::first_changed() const {
  for (const auto& [at, value] : watched_) {
    if (*at != value) return at;
  }
  return nullptr;
}

}  // namespace snug
