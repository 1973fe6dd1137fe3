// SPDX-License-Identifier: Apache-2.0
#include "plan/placement/exact_search.h"
#include "base/stop.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace snug::plan::internal {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// The most rounds of inference at one node: some fixed points are reached in tiny steps. Stopping
// early is sound.
constexpr int32_t kRounds = 8;
constexpr int64_t kVisitsPerNode = 16'384;
constexpr int64_t kVisitsPerItem = 16;      // what an item costs beside its sections
constexpr int64_t kFailure = 1024;          // one failure; so that halving keeps the order of few
constexpr int64_t kFailureHalfLife = 1400;  // failures until all earlier ones count half

}  // namespace

ExactSearch::ExactSearch(std::vector<ExactItem> items, int32_t sections, int64_t capacity)
    : items_(std::move(items)),
      capacity_(capacity),
      order_(items_.size()),
      lowest_(items_.size()),
      offsets_(items_.size()),
      scratch_(items_.size()) {
  const auto count = static_cast<size_t>(sections);
  for (auto* each : {&end_, &bytes_left_, &lowest_end_, &second_end_, &second_lowest_}) {
    each->assign(count, 0);
  }
  crossing_.assign(count + 1, 0);
  part_of_.assign(count, 0);
}

SearchEnd ExactSearch::run(std::span<const int64_t> preference, std::span<int64_t> failures,
                           int64_t max_nodes) {
  preference_ = preference;
  failures_ = failures;
  nodes_ = 0;
  std::fill(lowest_.begin(), lowest_.end(), 0);
  std::iota(order_.begin(), order_.end(), 0);
  trail_.clear();
  frames_.clear();
  parts_.clear();
  if (items_.empty()) return SearchEnd::solved;

  enum class Next : uint8_t { part, decision, failure };
  // The first frame stands for the whole: it has parts and no item.
  frames_.push_back({{0, 0}, 0, 0, 0, 0, kNever});
  split({0, static_cast<int32_t>(items_.size())});
  Next next = Next::part;
  while (true) {
    Frame& frame = frames_.back();
    if (next == Next::part) {
      if (frame.next_part < parts_.size()) {
        const Part part = parts_[frame.next_part++];
        frames_.push_back({part, trail_.size(), 0, parts_.size(), parts_.size(), kNever});
        next = Next::decision;
      } else {
        parts_.resize(frame.parts_begin);
        frames_.pop_back();
        if (frames_.empty()) return SearchEnd::solved;
      }
    } else if (next == Next::decision) {
      stop_point();
      if (nodes_ >= max_nodes) return SearchEnd::stopped;
      ++nodes_;
      if (propagate(frame.part)) {
        place(frame, choose(frame.part));
        next = Next::part;
      } else {
        next = Next::failure;
      }
    } else {
      // The part of the last frame has no solution; nor has the decision that made it.
      undo(frame.trail_begin);
      parts_.resize(frame.parts_begin);
      frames_.pop_back();
      Frame& parent = frames_.back();
      if (frames_.size() == 1) return SearchEnd::impossible;
      parts_.resize(parent.parts_begin);
      undo(parent.trail_placed);
      if (parent.postponed_to == kNever) continue;
      postpone(parent);
      next = Next::decision;
    }
  }
}

void ExactSearch::raise(int32_t i, int64_t offset) {
  if (offset <= lowest(i)) return;
  trail_.emplace_back(i, lowest(i));
  lowest(i) = offset;
}

void ExactSearch::undo(size_t trail_size) {
  for (; trail_.size() > trail_size; trail_.pop_back()) {
    lowest(trail_.back().first) = trail_.back().second;
  }
}

// By insertion, since little has changed from node to node; a part that was taken apart is sorted
// anew. The order is total, so both give the same.
void ExactSearch::sort_by_lowest(Part part) {
  const auto is_before = [&](int32_t a, int32_t b) {
    return lowest(a) != lowest(b) ? lowest(a) < lowest(b) : a < b;
  };
  int64_t moves_left = 8 * (part.end - part.begin);
  for (int32_t i = part.begin + 1; i < part.end; ++i) {
    const int32_t moved = at(i);
    int32_t to = i;
    for (; to > part.begin && is_before(moved, at(to - 1)); --to) at(to) = at(to - 1);
    at(to) = moved;
    moves_left -= i - to;
    if (moves_left < 0) {
      std::sort(order_.begin() + part.begin, order_.begin() + part.end, is_before);
      return;
    }
  }
}

ExactSearch::Sections ExactSearch::sections_of(Part part) const {
  Sections sections{std::numeric_limits<int32_t>::max(), 0};
  for (int32_t p = part.begin; p < part.end; ++p) {
    const ExactItem& each = item(order_[p]);
    sections.begin = std::min(sections.begin, each.begin);
    sections.end = std::max(sections.end, each.end);
  }
  return sections;
}

void ExactSearch::count_failure(int32_t section) {
  failures_[section] += kFailure;
  if (++failure_count_ % kFailureHalfLife != 0) return;
  for (int64_t& each : failures_) each /= 2;
}

// Raises lowest offsets until nothing changes, or often enough; false where some section cannot be
// filled. The loops over sections have no branches: they are most of the search's time, and compile
// to SIMD.
bool ExactSearch::propagate(Part part) {
  const Sections sections = sections_of(part);
  int64_t* const end = end_.data();
  int64_t* const bytes_left = bytes_left_.data();
  int64_t* const lowest_end = lowest_end_.data();
  int64_t* const second_end = second_end_.data();
  int64_t visits = 0;
  bool has_changed = true;
  for (int32_t round = 0; round < kRounds && has_changed; ++round) {
    sort_by_lowest(part);
    for (int32_t s = sections.begin; s < sections.end; ++s) {
      end[s] = 0;
      bytes_left[s] = 0;
      lowest_end[s] = kNever;
      second_end[s] = kNever;
    }
    for (int32_t p = part.begin; p < part.end; ++p) {
      const ExactItem& each = item(at(p));
      const int64_t from = lowest(at(p));
      const int64_t to = from + each.bytes;
      for (int32_t s = each.begin; s < each.end; ++s) {
        end[s] = std::max(end[s], from) + each.bytes;
        bytes_left[s] += each.bytes;
        second_end[s] = std::min(second_end[s], std::max(lowest_end[s], to));
        lowest_end[s] = std::min(lowest_end[s], to);
      }
      visits += each.end - each.begin + kVisitsPerItem;
    }
    nodes_ += visits / kVisitsPerNode;
    visits %= kVisitsPerNode;
    const auto worst = std::max_element(end + sections.begin, end + sections.end);
    if (*worst > capacity_) {
      count_failure(static_cast<int32_t>(worst - end));
      return false;
    }
    has_changed = false;
    for (int32_t p = part.begin; p < part.end; ++p) {
      const ExactItem& each = item(at(p));
      const int64_t from = lowest(at(p));
      const int64_t to = from + each.bytes;
      int64_t raised = from;
      for (int32_t s = each.begin; s < each.end; ++s) {
        const int64_t others_end = lowest_end[s] == to ? second_end[s] : lowest_end[s];
        raised = std::max(raised, from + bytes_left[s] > capacity_ ? others_end : 0);
      }
      if (raised == from) continue;
      if (raised > capacity_ - each.bytes) {
        count_failure(each.begin);
        return false;
      }
      raise(at(p), raised);
      has_changed = true;
    }
  }
  if (has_changed) sort_by_lowest(part);
  return true;
}

// The position of the item to decide on: among those with the lowest offset of the part one that
// cannot be postponed, else the preferred one.
int32_t ExactSearch::choose(Part part) {
  constexpr int64_t kNone = -1;
  constexpr int64_t kOne = -2;
  const Sections sections = sections_of(part);
  std::fill(second_lowest_.begin() + sections.begin, second_lowest_.begin() + sections.end, kNone);
  int64_t* const second = second_lowest_.data();
  for (int32_t p = part.begin; p < part.end; ++p) {
    const ExactItem& each = item(at(p));
    const int64_t from = lowest(at(p));
    for (int32_t s = each.begin; s < each.end; ++s) {
      second[s] = second[s] == kNone ? kOne : second[s] == kOne ? from : second[s];
    }
  }
  const int64_t floor = lowest(at(part.begin));
  int32_t chosen = part.begin;
  for (int32_t p = part.begin; p < part.end && lowest(at(p)) == floor; ++p) {
    const ExactItem& each = item(at(p));
    const int64_t to = floor + each.bytes;
    int64_t postponed_to = kNever;
    for (int32_t s = each.begin; s < each.end; ++s) {
      const auto at_s = static_cast<size_t>(s);
      postponed_to =
          std::min(postponed_to, lowest_end_[at_s] == to ? second_end_[at_s] : lowest_end_[at_s]);
    }
    for (int32_t s = each.begin; s < each.end; ++s) {
      const auto at_s = static_cast<size_t>(s);
      const int64_t others = second[s] < 0 ? postponed_to : std::min(postponed_to, second[s]);
      if (others > capacity_ - bytes_left_[at_s]) return p;
    }
    const auto preference_of = [&](int32_t position) { return preference_[at(position)]; };
    if (preference_of(p) > preference_of(chosen)) chosen = p;
  }
  return chosen;
}

// Puts the item at its lowest offset; every other item of the part is not lower, so those that
// overlap it lie above.
void ExactSearch::place(Frame& frame, int32_t position) {
  const Part part = frame.part;
  frame.trail_placed = trail_.size();
  std::rotate(order_.begin() + position, order_.begin() + position + 1, order_.begin() + part.end);
  const int32_t chosen = at(part.end - 1);
  const ExactItem& placed = item(chosen);
  offsets_[chosen] = lowest(chosen);
  const int64_t end = lowest(chosen) + placed.bytes;
  frame.postponed_to = kNever;
  for (int32_t p = part.begin; p < part.end - 1; ++p) {
    const ExactItem& other = item(at(p));
    if (other.begin >= placed.end || placed.begin >= other.end) continue;
    frame.postponed_to = std::min(frame.postponed_to, lowest(at(p)) + other.bytes);
    raise(at(p), end);
  }
  frame.parts_begin = parts_.size();
  frame.next_part = parts_.size();
  if (part.end - part.begin > 1) split({part.begin, part.end - 1});
}

// The item lies higher in every solution that is left. So do its twins: one of them could change
// places with it.
void ExactSearch::postpone(const Frame& frame) {
  const int32_t chosen = at(frame.part.end - 1);
  const ExactItem& postponed = item(chosen);
  const int64_t from = lowest(chosen);
  for (int32_t p = frame.part.begin; p < frame.part.end; ++p) {
    const ExactItem& other = item(at(p));
    if (lowest(at(p)) == from && other.begin == postponed.begin && other.end == postponed.end &&
        other.bytes == postponed.bytes) {
      raise(at(p), frame.postponed_to);
    }
  }
}

// Cuts the part at the boundaries that no item crosses, and appends the pieces to parts_, the
// smallest first: if it fails, the others need not be tried.
void ExactSearch::split(Part part) {
  const Sections sections = sections_of(part);
  std::fill(crossing_.begin() + sections.begin, crossing_.begin() + sections.end + 1, 0);
  for (int32_t p = part.begin; p < part.end; ++p) {
    ++crossing_[item(at(p)).begin + 1];
    --crossing_[item(at(p)).end];
  }
  int32_t pieces = 0;
  int32_t crossing = 0;
  for (int32_t s = sections.begin; s < sections.end; ++s) {
    crossing += crossing_[s];
    if (s > sections.begin && crossing == 0) ++pieces;
    part_of_[s] = pieces;
  }
  ++pieces;
  if (pieces == 1) {
    parts_.push_back(part);
    return;
  }
  // Stable, so that the pieces stay nearly sorted.
  const size_t first = parts_.size();
  parts_.resize(first + static_cast<size_t>(pieces), {0, 0});
  const auto piece_of = [&](int32_t i) -> Part& {
    return parts_[first + static_cast<size_t>(part_of_[item(i).begin])];
  };
  for (int32_t p = part.begin; p < part.end; ++p) {
    scratch_[p] = at(p);
    ++piece_of(at(p)).end;
  }
  int32_t begin = part.begin;
  for (size_t i = first; i < parts_.size(); ++i) {
    const int32_t size = parts_[i].end;
    parts_[i] = {begin, begin};
    begin += size;
  }
  for (int32_t p = part.begin; p < part.end; ++p) {
    const int32_t i = scratch_[p];
    at(piece_of(i).end++) = i;
  }
  // Sections that no item covers make empty pieces.
  parts_.erase(std::remove_if(parts_.begin() + static_cast<std::ptrdiff_t>(first), parts_.end(),
                              [](Part each) { return each.begin == each.end; }),
               parts_.end());
  std::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(first), parts_.end(),
                   [](Part a, Part b) { return a.end - a.begin < b.end - b.begin; });
}

}  // namespace snug::plan::internal
