// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/peak_report.h"

#include <algorithm>

#include "base/units.h"

namespace snug::plan {

PeakReport peak_report(const Problem& problem, const Plan& plan) {
  PeakReport report;
  report.step = plan.peak_step;
  report.load_bytes = plan.load_bytes;
  if (plan.steps.empty()) return report;
  const Op& op = problem.ops[plan.steps[plan.peak_step].op];
  report.op_name = op.name;
  report.op_scope = op.scope;
  for (const LiveRange& range : plan.live_ranges) {
    if (range.first > plan.peak_step || range.last < plan.peak_step || range.bytes == 0) continue;
    std::string name = range.is_scratch() ? "scratch of " + problem.ops[range.scratch_of].name
                                          : problem.storages[range.storage].name;
    report.rows.push_back({std::move(name), range.bytes, range.first, range.last});
  }
  std::stable_sort(
      report.rows.begin(), report.rows.end(),
      [](const PeakReport::Row& a, const PeakReport::Row& b) { return a.bytes > b.bytes; });
  return report;
}

std::string format_table(const PeakReport& report, size_t max_rows) {
  const std::string place =
      report.op_scope.empty() ? report.op_name : report.op_scope + "/" + report.op_name;
  std::string text = "peak " + format_bytes(report.load_bytes) + " at step " +
                     std::to_string(report.step) + ", " + place + "\n";
  const size_t shown = std::min(max_rows, report.rows.size());
  int64_t others = 0;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const PeakReport::Row& row = report.rows[i];
    if (i >= shown) {
      others += row.bytes;
      continue;
    }
    std::string bytes = format_bytes(row.bytes);
    if (bytes.size() < 12) bytes.insert(0, 12 - bytes.size(), ' ');
    text += bytes + "  " + row.name + "  (steps " + std::to_string(row.first) + " to " +
            std::to_string(row.last) + ")\n";
  }
  if (shown < report.rows.size()) {
    text += "and " + std::to_string(report.rows.size() - shown) + " more with " +
            format_bytes(others) + "\n";
  }
  return text;
}

}  // namespace snug::plan
