// SPDX-License-Identifier: Apache-2.0
// The moment of the peak, by name: what is live at the step where a plan's load is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem/plan.h"

namespace snug::plan {

struct PeakReport {
  struct Row {
    std::string name;
    int64_t bytes = 0;
    int32_t first = 0;  // steps
    int32_t last = 0;
    bool operator==(const Row&) const = default;
  };
  int32_t step = 0;
  std::string op_name;
  std::string op_scope;
  int64_t load_bytes = 0;
  std::vector<Row> rows;  // largest first
};

[[nodiscard]] PeakReport peak_report(const Problem& problem, const Plan& plan);

/// A table of the `max_rows` largest, the others summed in one line.
[[nodiscard]] std::string format_table(const PeakReport& report, size_t max_rows = 10);

}  // namespace snug::plan
