// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/range_bytes.h"

#include <algorithm>

namespace snug::plan {

// Moments behind the end exist in the last block; they hold nothing.
void RangeSum::reset(size_t moments) {
  const size_t blocks = (moments + kBlock - 1) / kBlock;
  own_.assign(blocks * kBlock, 0);
  block_add_.assign(blocks, 0);
}

void RangeSum::add_inside(size_t first, size_t last, double bytes) {
  double* const own = own_.data();
  for (size_t i = first; i <= last; ++i) own[i] += bytes;
}

void RangeSum::add(int32_t first, int32_t last, double bytes) {
  if (first > last) return;
  const auto begin = static_cast<size_t>(first);
  const auto end = static_cast<size_t>(last);
  const size_t first_block = begin / kBlock;
  const size_t last_block = end / kBlock;
  if (first_block == last_block) return add_inside(begin, end, bytes);
  add_inside(begin, (first_block + 1) * kBlock - 1, bytes);
  for (size_t block = first_block + 1; block < last_block; ++block) block_add_[block] += bytes;
  add_inside(last_block * kBlock, end, bytes);
}

void RangeBytes::reset(size_t moments) {
  RangeSum::reset(moments);
  block_max_.assign(block_add_.size(), 0);
  is_forgotten_.assign(block_add_.size(), false);
  forgotten_.clear();
}

void RangeBytes::forget(size_t block) {
  if (is_forgotten_[block]) return;
  is_forgotten_[block] = true;
  forgotten_.push_back(block);
}

void RangeBytes::measure() const {
  for (const size_t block : forgotten_) {
    const double* own = own_.data() + block * kBlock;
    // Several at once: one maximum would wait for the one before.
    constexpr size_t kLanes = 8;
    static_assert(kBlock % kLanes == 0);
    double most[kLanes];
    std::copy(own, own + kLanes, most);
    for (size_t i = kLanes; i < kBlock; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane)
        most[lane] = own[i + lane] > most[lane] ? own[i + lane] : most[lane];
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane)
        most[lane] = most[lane + half] > most[lane] ? most[lane + half] : most[lane];
    }
    block_max_[block] = most[0] + block_add_[block];
    is_forgotten_[block] = false;
  }
  forgotten_.clear();
}

void RangeBytes::add(int32_t first, int32_t last, double bytes) {
  if (first > last) return;
  RangeSum::add(first, last, bytes);
  const size_t first_block = static_cast<size_t>(first) / kBlock;
  const size_t last_block = static_cast<size_t>(last) / kBlock;
  forget(first_block);
  for (size_t block = first_block + 1; block < last_block; ++block) block_max_[block] += bytes;
  forget(last_block);
}

void RangeBytes::set(int32_t moment, double bytes) {
  const auto position = static_cast<size_t>(moment);
  const size_t block = position / kBlock;
  const double old = at(moment);
  own_[position] = bytes - block_add_[block];
  if (is_forgotten_[block]) return;
  if (bytes >= block_max_[block]) {
    block_max_[block] = bytes;
  } else if (old >= block_max_[block]) {
    forget(block);
  }
}

double RangeBytes::largest() const {
  measure();
  return *std::max_element(block_max_.begin(), block_max_.end());
}

double RangeBytes::largest(int32_t first, int32_t last) const {
  measure();
  double most = at(first);
  for (int32_t moment = first; moment <= last;) {
    const auto block = static_cast<size_t>(moment) / kBlock;
    const auto end = static_cast<int32_t>((block + 1) * kBlock);
    if (moment % static_cast<int32_t>(kBlock) == 0 && end - 1 <= last) {
      most = std::max(most, block_max_[block]);
      moment = end;
      continue;
    }
    for (; moment < end && moment <= last; ++moment) most = std::max(most, at(moment));
  }
  return most;
}

int32_t RangeBytes::where_largest() const {
  measure();
  const auto found = std::max_element(block_max_.begin(), block_max_.end());
  const auto block = static_cast<size_t>(found - block_max_.begin());
  const auto begin = own_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
  return static_cast<int32_t>(std::max_element(begin, begin + kBlock) - own_.begin());
}

double RangeBytes::above(double limit) const {
  measure();
  double sum = 0;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] <= limit) continue;
    const double* own = own_.data() + block * kBlock;
    const double room = limit - block_add_[block];
    for (size_t i = 0; i < kBlock; ++i) sum += std::max(0.0, own[i] - room);
  }
  return sum;
}

}  // namespace snug::plan
