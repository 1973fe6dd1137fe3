// SPDX-License-Identifier: Apache-2.0
// Reports of `snug solve remat` and `snug solve check` as JSON and as text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/units.h"
#include "snug/solve_remat.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

void add_parts(Json& json, const std::optional<RematParts>& parts) {
  if (!parts) return;
  json["forward_peak_bytes"] = parts->forward_peak_bytes;
  json["backward_peak_bytes"] = parts->backward_peak_bytes;
  json["crossing_bytes"] = parts->crossing_bytes;
  json["crossing"] = parts->crossing;
  json["boundary_step"] = parts->boundary_step;
}

std::string text_of(const RematParts& parts) {
  return fmt::format(
      "parts      forward {} bytes ({} runs), backward {} bytes; {} bytes cross ({} storages)\n",
      parts.forward_peak_bytes, parts.boundary_step, parts.backward_peak_bytes,
      parts.crossing_bytes, parts.crossing.size());
}

// Where bytes are needed: at an op, else at the boundary.
std::string place_of(const std::string& op) {
  return op.empty() ? "the boundary" : "op '" + op + "'";
}

Json json_of(const RematReport& report) {
  Json json = {{"fits", report.fits},
               {"budget_bytes", report.budget_bytes},
               {"keep_all_peak_bytes", report.keep_all_peak_bytes},
               {"peak_bytes", report.peak_bytes},
               {"cost", report.cost},
               {"base_cost", report.base_cost},
               {"overhead", report.overhead},
               {"lower_bound_cost", report.lower_bound_cost},
               {"lower_bound_peak_bytes", report.lower_bound_peak_bytes},
               {"lower_bound_op", report.lower_bound_op},
               {"proof", report.proof.empty() ? Json(nullptr) : Json(report.proof)},
               {"gap", report.gap},
               {"is_optimal", report.is_optimal},
               {"is_stopped", report.is_stopped},
               {"seconds", report.seconds}};
  add_parts(json, report.parts);
  json["schedule"] = report.schedule;
  return json;
}

std::string percent(double fraction) { return fixed_text(100 * fraction, 2) + " %"; }

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

std::string RematReport::refusal() const {
  if (fits) return {};
  if (proof == "kept") {
    return fmt::format(
        "no schedule fits {} bytes: what is kept at the end and the operands of {}, which "
        "makes the last of it, need {} bytes at once; the smallest peak found is {} bytes ({} "
        "above that bound)",
        budget_bytes, place_of(lower_bound_op), lower_bound_peak_bytes, peak_bytes, percent(gap));
  }
  if (!proof.empty()) {
    return fmt::format(
        "no schedule fits {} bytes: {} needs {} bytes at once; the smallest peak found is {} "
        "bytes ({} above that bound)",
        budget_bytes, place_of(lower_bound_op), lower_bound_peak_bytes, peak_bytes, percent(gap));
  }
  return fmt::format(
      "{} {} bytes: the smallest peak found is {} bytes, the bound is {} ({}), the gap {}",
      is_optimal   ? "no schedule fits"
      : is_stopped ? "the time was over before a schedule was found within"
                   : "no schedule found within",
      budget_bytes, peak_bytes, lower_bound_peak_bytes, place_of(lower_bound_op), percent(gap));
}

std::string RematReport::to_json() const { return json_of(*this).dump(); }

std::string RematReport::to_text() const {
  std::string text = fmt::format(
      "peak       {} bytes ({}, {} of keeping all; budget {})\n"
      "cost       {:.9g} ({} above one run of every op)\n",
      peak_bytes, format_bytes(peak_bytes), percent(share(peak_bytes, keep_all_peak_bytes)),
      budget_bytes, cost, percent(overhead));
  text += is_optimal && fits ? std::string("bound      the cost is optimal\n")
                             : fmt::format("bound      cost {:.9g}: the gap is {} at most\n",
                                           lower_bound_cost, percent(gap));
  text += fmt::format(
      "bound      peak {} bytes, by {}\n"
      "schedule   {} runs, found in {}\n",
      lower_bound_peak_bytes, place_of(lower_bound_op), schedule.size(), format_seconds(seconds));
  return parts ? text + text_of(*parts) : text;
}

std::string RematCurve::to_json() const {
  Json list = Json::array();
  for (const RematReport& point : points) list.push_back(json_of(point));
  return Json{{"points", list}, {"seconds", seconds}}.dump();
}

std::string RematCurve::to_text() const {
  std::string text = fmt::format("{:>16} {:>9} {:>14} {:>10} {:>10}\n", "peak bytes", "of all",
                                 "cost", "overhead", "bound");
  for (const RematReport& point : points) {
    text += fmt::format(
        "{:>16} {:>9} {:>14.9g} {:>10} {:>10}\n", point.peak_bytes,
        percent(share(point.peak_bytes, point.keep_all_peak_bytes)), point.cost,
        percent(point.overhead),
        percent(point.base_cost > 0 ? point.lower_bound_cost / point.base_cost - 1 : 0));
  }
  return text + fmt::format("{} schedules in {}\n", points.size(), format_seconds(seconds));
}

std::string RematCheck::to_json() const {
  Json json = {{"valid", violations.empty()},
               {"violations", violations},
               {"peak_bytes", peak_bytes},
               {"peak_op", peak_op},
               {"cost", cost},
               {"base_cost", base_cost},
               {"steps", steps},
               {"step_bytes", step_bytes}};
  add_parts(json, parts);
  return json.dump();
}

std::string RematCheck::to_text() const {
  if (!violations.empty()) {
    std::string text = "not valid:\n";
    for (const std::string& each : violations) text += "  " + each + "\n";
    return text;
  }
  const std::string place = peak_op.empty() ? "the boundary" : "op '" + peak_op + "'";
  const std::string text = fmt::format(
      "valid: {} runs, peak {} bytes at {}, cost {:.9g} ({} above {:.9g})\n", steps, peak_bytes,
      place, cost, percent(base_cost > 0 ? cost / base_cost - 1 : 0), base_cost);
  return parts ? text + text_of(*parts) : text;
}

}  // namespace snug
