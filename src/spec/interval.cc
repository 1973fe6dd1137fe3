// SPDX-License-Identifier: Apache-2.0
#include "snug/interval.h"

#include <cmath>

namespace snug {

int64_t Interval::updates(int64_t total_steps, int64_t batches_per_epoch) const {
  switch (unit) {
    case IntervalUnit::updates:
      return count;
    case IntervalUnit::share:
      return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * part));
    case IntervalUnit::epoch:
      return batches_per_epoch;
    case IntervalUnit::end:
      return 0;
  }
  return 0;
}

}  // namespace snug
