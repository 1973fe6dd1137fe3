// SPDX-License-Identifier: Apache-2.0
// The tree search behind place_exact: offsets for intervals of sections within a capacity.
//
// Every placement can be pressed down until each item lies on the ground or on another item. Of
// such placements the search decides, from the lowest offset upwards: the undecided item with the
// lowest possible offset is put there, or it is postponed, and then it lies on an item that is
// undecided too, so its lowest offset rises to the lowest end among those that overlap it.
//
// In every section the undecided items are a machine that runs jobs with release dates (lowest
// offset, bytes): if they end above the capacity, the branch is dead; if an item cannot be the
// lowest of a section, its lowest offset rises to the lowest end of the others there. What no
// longer overlaps in time is solved apart.
//
// The search owns no policy: which of several items with equal lowest offset goes first is the
// caller's `preference`, and it reports in which sections branches died, so that the caller can
// start again with a better one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/index_vector.h"
#include "plan/placement/placement.h"

namespace snug::plan::internal {

struct ExactItem {
  int32_t begin = 0;  // sections [begin, end)
  int32_t end = 0;
  int64_t bytes = 0;  // > 0
};

class ExactSearch {
 public:
  /// `capacity` plus the bytes of any section must be an int64.
  ExactSearch(std::vector<ExactItem> items, int32_t sections, int64_t capacity);

  /// Searches from the beginning. Of items with equal lowest offset the one with the highest
  /// `preference` goes first. `failures[s]` grows where branches die in section s. Stops after
  /// `max_nodes`; a large node counts several times, so that one costs about 10 µs.
  SearchEnd run(std::span<const int64_t> preference, std::span<int64_t> failures,
                int64_t max_nodes);

  /// The offsets that the last run found, where it ended `solved`.
  [[nodiscard]] const IndexVector<int64_t>& offsets() const { return offsets_; }
  /// The nodes that the last run visited.
  [[nodiscard]] int64_t nodes() const { return nodes_; }

 private:
  // Undecided items that overlap in time only with each other: order_[begin, end).
  struct Part {
    int32_t begin;
    int32_t end;
  };
  // A part with one decision: the item at the part's end is placed, the others are `parts`.
  struct Frame {
    Part part;
    size_t trail_begin;    // before anything was derived for the part
    size_t trail_placed;   // before the item was placed
    size_t parts_begin;    // its parts are the last of parts_, from here on
    size_t next_part;      // the first that is not solved
    int64_t postponed_to;  // lowest offset of the item if it is not placed
  };
  struct Sections {
    int32_t begin;
    int32_t end;
  };

  void raise(int32_t item, int64_t offset);
  void undo(size_t trail_size);
  void sort_by_lowest(Part part);
  [[nodiscard]] Sections sections_of(Part part) const;
  void count_failure(int32_t section);
  bool propagate(Part part);
  [[nodiscard]] int32_t choose(Part part);
  void place(Frame& frame, int32_t position);
  void postpone(const Frame& frame);
  void split(Part part);

  [[nodiscard]] const ExactItem& item(int32_t i) const { return items_[i]; }
  [[nodiscard]] int64_t& lowest(int32_t i) { return lowest_[i]; }
  [[nodiscard]] int32_t& at(int32_t position) { return order_[position]; }

  IndexVector<ExactItem> items_;
  int64_t capacity_;
  IndexVector<int32_t> order_;   // items; every part is a stretch of it
  IndexVector<int64_t> lowest_;  // per item: no solution below this branch has it lower
  IndexVector<int64_t> offsets_;
  std::vector<std::pair<int32_t, int64_t>> trail_;  // items and the lowest offsets they had
  std::vector<Frame> frames_;
  IndexVector<Part> parts_;

  // Per section, of the undecided items there; valid after propagate() of their part.
  std::vector<int64_t> end_;         // where the last one ends at best
  std::vector<int64_t> bytes_left_;  // sum of bytes
  std::vector<int64_t> lowest_end_;  // lowest offset + bytes: the smallest, and the second
  std::vector<int64_t> second_end_;
  std::vector<int64_t> second_lowest_;  // second smallest lowest offset; by choose()

  IndexVector<int32_t> crossing_;  // per boundary of sections: items that cross it; by split()
  IndexVector<int32_t> part_of_;   // per section
  IndexVector<int32_t> scratch_;

  IndexSpan<const int64_t> preference_;
  IndexSpan<int64_t> failures_;
  int64_t failure_count_ = 0;
  int64_t nodes_ = 0;
};

}  // namespace snug::plan::internal
