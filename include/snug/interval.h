// SPDX-License-Identifier: Apache-2.0
// How often something happens in a run: evaluations, checkpoints, lines of the log.
#pragma once

#include <cstdint>

namespace snug {

enum class IntervalUnit : uint8_t {
  updates,  // `count` of them
  share,    // `part` of all updates, rounded up to whole ones
  epoch,    // at the end of each
  end,      // at the end of the run only
};

struct Interval {
  IntervalUnit unit = IntervalUnit::updates;
  int64_t count = 0;  // 0: operator=
  double part = 0;    // within (0, 1)

  /// So many updates; 0 is what it is in a run configuration: the end of every epoch for
  /// evaluations, the end of the run for checkpoints.
  Interval& operator=(int64_t updates) {
    *this = Interval{.unit = IntervalUnit::updates, .count = updates, .part = 0};
    return *this;
  }
  /// As evaluations take it.
  [[nodiscard]] Interval or_epoch() const {
    const bool is_zero = unit == IntervalUnit::updates && count == 0;
    return is_zero ? Interval{.unit = IntervalUnit::epoch, .count = 0, .part = 0} : *this;
  }
  [[nodiscard]] bool is_at_end_only() const { return unit == IntervalUnit::end; }
  /// In updates of a run with so many, and so many to an epoch; 0: at the end only.
  [[nodiscard]] int64_t updates(int64_t total_steps, int64_t batches_per_epoch) const;
  bool operator==(const Interval&) const = default;
};

}  // namespace snug
