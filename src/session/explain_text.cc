// SPDX-License-Identifier: Apache-2.0
// An explanation as text and as JSON.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/listed.h"
#include "base/units.h"
#include "snug/explain.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

// Ops and kernels that a table lists; the JSON has all.
constexpr size_t kMostLines = 24;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// So that small ones and large ones can be compared down a column.
std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

std::string at(const std::string& scope) { return scope.empty() ? "" : "  first at " + scope; }

std::string more(size_t lines) {
  return lines <= kMostLines ? "" : fmt::format("  {} more: --json\n", lines - kMostLines);
}

struct Totals {
  double seconds = 0;
  int64_t runs = 0;
  int64_t kernels = 0;
  double saved_bytes = 0;
};

Totals totals_of(const Explanation& explanation) {
  Totals all;
  for (const OpTime& each : explanation.step) all.seconds += each.seconds;
  for (const MergedOps& each : explanation.merged) {
    all.runs += each.runs;
    all.kernels += each.kernels;
    all.saved_bytes += each.saved_bytes;
  }
  return all;
}

std::string step_text(const std::vector<OpTime>& step, double seconds) {
  if (step.empty()) return {};
  std::string text = fmt::format("\ntime, op by op: {} predicted for a batch of the longest rows\n",
                                 format_seconds(seconds));
  text += "       runs         time   share  limit       reached  op\n";
  for (size_t i = 0; i < step.size() && i < kMostLines; ++i) {
    const OpTime& op = step[i];
    text += fmt::format("  {:>9} {:>12} {:>5.1f} %  {:<10} {:>6.0f} %  {}\n", op.runs,
                        milliseconds(op.seconds), percent(op.seconds, seconds),
                        op.is_limited_by_memory ? "memory" : "arithmetic",
                        percent(op.limit_seconds, op.seconds), op.op);
  }
  return text + more(step.size());
}

std::string merged_text(const std::vector<MergedOps>& merged, const Totals& all) {
  if (merged.empty()) return "\nmerged: nothing\n";
  std::string text = fmt::format("\nmerged: {} ops in {} kernels save {} of memory traffic\n",
                                 all.runs, all.kernels, bytes_text(all.saved_bytes));
  text += "    kernels       saved  ops\n";
  for (size_t i = 0; i < merged.size() && i < kMostLines; ++i) {
    const MergedOps& each = merged[i];
    text += fmt::format("  {:>9} {:>11}  {}{}\n", each.kernels, bytes_text(each.saved_bytes),
                        joined(each.ops, each.ops.size()), at(each.first));
  }
  return text + more(merged.size());
}

std::string apart_text(const std::vector<ApartOps>& apart) {
  if (apart.empty()) return {};
  std::string text =
      "\nnot merged, although computed by rows:\n       runs         time  op: why\n";
  for (size_t i = 0; i < apart.size() && i < kMostLines; ++i) {
    const ApartOps& each = apart[i];
    text += fmt::format("  {:>9} {:>12}  {}: {}{}\n", each.runs, milliseconds(each.seconds),
                        each.op, each.reason, at(each.first));
  }
  return text + more(apart.size());
}

}  // namespace

std::string Explanation::to_text() const {
  std::string text;
  double sum = 0;
  for (const Stage& stage : stages) {
    text += fmt::format("{:<16} {:>9.1f} ms   {}\n", stage.name, stage.seconds * 1e3, stage.result);
    sum += stage.seconds;
  }
  text += fmt::format("{:<16} {:>9.1f} ms\n", "all", sum * 1e3);
  const Totals all = totals_of(*this);
  text += step_text(step, all.seconds) + merged_text(merged, all) + apart_text(apart);
  for (const Stage& stage : stages) {
    if (!stage.text.empty()) text += fmt::format("\n== {}\n{}\n", stage.name, stage.text);
  }
  return text;
}

std::string Explanation::to_json() const {
  Json json = {{"stages", Json::array()}};
  for (const Stage& stage : stages) {
    json["stages"].push_back(
        {{"name", stage.name}, {"seconds", stage.seconds}, {"result", stage.result}});
    if (!stage.text.empty()) json["stages"].back()["text"] = stage.text;
  }
  const Totals all = totals_of(*this);
  json["step"] = {{"seconds", all.seconds}, {"ops", Json::array()}};
  for (const OpTime& each : step) {
    json["step"]["ops"].push_back({{"op", each.op},
                                   {"runs", each.runs},
                                   {"seconds", each.seconds},
                                   {"flops", each.flops},
                                   {"bytes", each.bytes},
                                   {"limit", each.is_limited_by_memory ? "memory" : "arithmetic"},
                                   {"limit_seconds", each.limit_seconds}});
  }
  json["fusion"] = {{"ops", all.runs},
                    {"kernels", all.kernels},
                    {"saved_bytes", all.saved_bytes},
                    {"merged", Json::array()},
                    {"apart", Json::array()}};
  for (const MergedOps& each : merged) {
    json["fusion"]["merged"].push_back({{"ops", each.ops},
                                        {"first", each.first},
                                        {"kernels", each.kernels},
                                        {"runs", each.runs},
                                        {"saved_bytes", each.saved_bytes}});
  }
  for (const ApartOps& each : apart) {
    json["fusion"]["apart"].push_back({{"op", each.op},
                                       {"first", each.first},
                                       {"reason", each.reason},
                                       {"runs", each.runs},
                                       {"seconds", each.seconds}});
  }
  return json.dump(2);
}

}  // namespace snug
