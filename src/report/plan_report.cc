// SPDX-License-Identifier: Apache-2.0
// A plan as JSON for programs and as a table for people.
#include "snug/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/lengths_json.h"
#include "base/units.h"
#include "report/percent.h"

namespace snug {
namespace {

constexpr int kBarWidth = 30;

std::string bar(int64_t bytes, int64_t whole) {
  const auto full = static_cast<int64_t>(whole > 0 ? bytes * kBarWidth / whole : 0);
  std::string text;
  for (int64_t i = 0; i < kBarWidth; ++i) text += i < full ? "█" : "·";
  return text;
}

/// Keeps one of the rows that print the same budget: the plan's own, else the fastest, which is the
/// last.
std::vector<PriceRow> told_apart(const std::vector<PriceRow>& rows) {
  std::vector<PriceRow> out;
  for (const PriceRow& row : rows) {
    const bool is_equal = !out.empty() && format_bytes_up(out.back().budget_bytes) ==
                                              format_bytes_up(row.budget_bytes);
    if (is_equal && out.back().is_chosen) continue;
    if (is_equal) out.pop_back();
    out.push_back(row);
  }
  return out;
}

/// At most `limit` rows around the chosen one, first and last included.
std::vector<PriceRow> thinned(const std::vector<PriceRow>& rows, size_t limit) {
  if (rows.size() <= limit) return rows;
  std::vector<PriceRow> out;
  size_t last = rows.size();
  for (size_t i = 0; i < limit; ++i) {
    const size_t index = i * (rows.size() - 1) / (limit - 1);
    for (size_t k = last == rows.size() ? index : last + 1; k < index; ++k) {
      if (rows[k].is_chosen) out.push_back(rows[k]);
    }
    out.push_back(rows[index]);
    last = index;
  }
  return out;
}

std::string joined(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < limit; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > limit) text += ", ...";
  return text;
}

// What a batch has so many of.
std::string row_text(const PlanReport& report) {
  if (!report.row.empty()) return " x " + report.row;
  if (report.max_length.empty()) return " rows";
  if (report.max_length.has_names()) return " x (" + to_string(report.max_length) + ")";
  return " x " + to_string(report.max_length) + " tokens";
}

// The blocks that run something again, at most ten.
std::string blocks_text(const std::vector<BlockTreatment>& blocks) {
  std::string out = "\n  blocks      kept at the loss, and run again in the backward part\n";
  size_t lines = 0;
  for (const BlockTreatment& block : blocks) {
    if (block.recompute_seconds <= 0) continue;
    if (++lines > 10) return out + "              ... (--json lists all)\n";
    const std::string name =
        block.count == 1 ? block.first
                         : fmt::format("{} .. {} ({})", block.first, block.last, block.count);
    out += fmt::format(
        "              {}\n                {}{}, keep-all {}; {:.0f} % of its time again\n"
        "                ({})\n",
        name, format_bytes(block.kept_bytes), block.count == 1 ? "" : " each",
        format_bytes(block.keep_all_bytes),
        block.forward_seconds > 0 ? 100 * block.recompute_seconds / block.forward_seconds : 0.0,
        joined(block.recomputed, 4));
  }
  return out;
}

}  // namespace

std::string PlanReport::to_json() const {
  nlohmann::ordered_json json = {{"budget_bytes", budget_bytes},
                                 {"process_bytes", process_bytes},
                                 {"read_ahead_bytes", read_ahead_bytes},
                                 {"held_rows_bytes", held_rows_bytes},
                                 {"resident_bytes", resident_bytes},
                                 {"arena_bytes", arena_bytes},
                                 {"planned_peak_bytes", planned_peak_bytes},
                                 {"keep_all_arena_bytes", keep_all_arena_bytes},
                                 {"keep_all_peak_bytes", keep_all_peak_bytes},
                                 {"keep_all_micro_batch", keep_all_micro_batch},
                                 {"load_bytes", load_bytes},
                                 {"working_set_bound_bytes", working_set_bound_bytes},
                                 {"smallest_budget_bytes", smallest_budget_bytes},
                                 {"micro_batch", micro_batch},
                                 {"accumulation_steps", accumulation_steps},
                                 {"two_pass_clip", two_pass_clip},
                                 {"packed_weights", packed_weights},
                                 {"dying_gradient_bytes", dying_gradient_bytes},
                                 {"step_seconds", step_seconds},
                                 {"step_seconds_uncertainty", step_seconds_uncertainty},
                                 {"fused_sums", fused_sums},
                                 {"fused_kernels", fused_kernels},
                                 {"row_program_ops", row_program_ops},
                                 {"row_programs", row_programs},
                                 {"ops_run_again", ops_run_again},
                                 {"recompute_overhead", recompute_overhead},
                                 {"lower_bound_overhead", lower_bound_overhead},
                                 {"strategy", strategy},
                                 {"peak_op", peak_op},
                                 {"instruction_set", instruction_set},
                                 {"row_coupling", row_coupling},
                                 {"model", model},
                                 {"parameters", parameters},
                                 {"trainable_parameters", trainable_parameters},
                                 {"train_batch_size", train_batch_size},
                                 {"max_length", lengths_json<nlohmann::ordered_json>(max_length)},
                                 {"precision", precision},
                                 {"row", row},
                                 {"updates", updates},
                                 {"run_seconds", run_seconds}};
  for (const MemoryComponent& part : components) json["components"][part.name] = part.bytes;
  json["states"] = nlohmann::ordered_json::array();
  for (const StateReport& state : states) {
    json["states"].push_back({{"name", state.name},
                              {"role", state.role},
                              {"codec", state.codec},
                              {"bytes", state.bytes}});
  }
  json["levers_taken"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : levers_taken) json["levers_taken"][key] = value;
  json["smallest_budget_levers"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : smallest_budget_levers)
    json["smallest_budget_levers"][key] = value;
  json["prices"] = nlohmann::ordered_json::array();
  for (const PriceRow& price : prices) {
    json["prices"].push_back({{"budget_bytes", price.budget_bytes},
                              {"step_seconds", price.step_seconds},
                              {"micro_batch", price.micro_batch},
                              {"strategy", price.strategy},
                              {"two_pass_clip", price.two_pass_clip},
                              {"packed_weights", price.packed_weights},
                              {"is_chosen", price.is_chosen}});
  }
  json["peak_tensors"] = nlohmann::ordered_json::array();
  for (const PeakTensor& tensor : peak_tensors) {
    json["peak_tensors"].push_back({{"name", tensor.name}, {"bytes", tensor.bytes}});
  }
  json["blocks"] = nlohmann::ordered_json::array();
  for (const BlockTreatment& block : blocks) {
    json["blocks"].push_back({{"first", block.first},
                              {"last", block.last},
                              {"count", block.count},
                              {"keep_all_bytes", block.keep_all_bytes},
                              {"kept_bytes", block.kept_bytes},
                              {"forward_seconds", block.forward_seconds},
                              {"recompute_seconds", block.recompute_seconds},
                              {"recomputed", block.recomputed},
                              {"kept", block.kept}});
  }
  return json.dump(2);
}

namespace {

// A line where any state is stored in 8 bits: how many there are of each kind.
std::string states_text(const std::vector<StateReport>& states) {
  struct Sum {
    int64_t count = 0;
    int64_t bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const StateReport& state : states) {
    ++sums[state.codec].count;
    sums[state.codec].bytes += state.bytes;
  }
  if (sums.empty() || (sums.size() == 1 && sums.count(kPlainStates) == 1)) return {};
  std::string text;
  for (const auto& [codec, sum] : sums)
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", sum.count,
                        codec == kPlainStates ? "in 32 bits" : "in 8 bits (" + codec + ")",
                        format_bytes(sum.bytes));
  return "  states      " + text + "\n";
}

}  // namespace

std::string PlanReport::to_text() const {
  std::string out;
  out += fmt::format("{}: {:.1f} M parameters, {:.1f} M trained; batch {}{}\n", model,
                     static_cast<double>(parameters) / 1e6,
                     static_cast<double>(trainable_parameters) / 1e6, train_batch_size,
                     row_text(*this));
  out += fmt::format("\n  {:<22} {:>11}\n", "budget", format_bytes_up(budget_bytes));
  for (const MemoryComponent& part : components) {
    out += fmt::format("  {:<22} {:>11}  {}\n", part.name, format_bytes(part.bytes),
                       bar(part.bytes, planned_peak_bytes));
  }
  out += fmt::format("  {:<22} {:>11}  of it {} free\n", "planned peak",
                     format_bytes_up(planned_peak_bytes),
                     format_bytes(budget_bytes - planned_peak_bytes));
  const std::string pieces = keep_all_micro_batch == train_batch_size
                                 ? "in one piece"
                                 : fmt::format("micro-batches of {}", keep_all_micro_batch);
  out += fmt::format("  {:<22} {:>11}  ({}, nothing recomputed)\n", "keep-all would need",
                     format_bytes_up(keep_all_peak_bytes), pieces);
  out += fmt::format(
      "  {:<22} {:>11}{}\n", "smallest budget", format_bytes_up(smallest_budget_bytes),
      smallest_budget_levers == levers_taken ? ""
      : smallest_budget_levers.empty()       ? "  without levers"
                                       : "  with the levers " + to_words(smallest_budget_levers));
  out += fmt::format("\n  split       {} micro-batch{} of {}\n", accumulation_steps,
                     accumulation_steps == 1 ? "" : "es", micro_batch);
  if (dying_gradient_bytes > 0)
    out += fmt::format("  gradients   {} die in their updates, never there together{}\n",
                       format_bytes(dying_gradient_bytes),
                       two_pass_clip ? "; forward and backward run twice, first for the norm" : "");
  if (packed_weights)
    out += "  weights     packed once an update for products of few rows: the same bits\n";
  if (fused_sums > 0)
    out += fmt::format("  gradients   {} sums in {} kernel{}: the same bits\n", fused_sums,
                       fused_kernels, fused_kernels == 1 ? "" : "s");
  if (row_program_ops > 0)
    out += fmt::format("  fused       {} ops in {} row program{}: the same bits\n", row_program_ops,
                       row_programs, row_programs == 1 ? "" : "s");
  if (!precision.empty()) out += "  precision   " + precision + "\n";
  out += states_text(states);
  if (!levers_taken.empty()) out += "  levers      " + to_words(levers_taken) + "\n";
  if (!row_coupling.empty())
    out += fmt::format("  rows        coupled: the network {}\n", row_coupling);
  out += fmt::format("  recompute   {}: {} time (in these bytes at least {})\n", strategy,
                     report::signed_percent(recompute_overhead),
                     report::signed_percent(lower_bound_overhead));
  if (ops_run_again > 0) {
    out += fmt::format("  run again   {} op{} a micro-batch\n", ops_run_again,
                       ops_run_again == 1 ? "" : "s");
  } else if (strategy != "keep-all" && strategy != "budget") {
    out += "  run again   nothing: so this strategy saves nothing here\n";
  }
  out += fmt::format("  step        {} \u00b1 {:.0f} % predicted", format_seconds(step_seconds),
                     100 * step_seconds_uncertainty);
  if (!instruction_set.empty()) out += fmt::format(" ({})", instruction_set);
  if (updates > 0)
    out += fmt::format("; {} updates, about {} in all", updates, format_seconds(run_seconds));
  out += fmt::format("\n  placement   {}, its lower bound {}\n", format_bytes(arena_bytes),
                     format_bytes(load_bytes));
  out += fmt::format("  peak at     {}\n", peak_op);
  for (size_t i = 0; i < peak_tensors.size() && i < 5; ++i) {
    out += fmt::format("              {:>11}  {}\n", format_bytes(peak_tensors[i].bytes),
                       peak_tensors[i].name);
  }
  if (recompute_overhead > 0) out += blocks_text(blocks);
  if (!prices.empty()) {
    out += "\n  price list  budget        step         micro-batch  recompute\n";
    const double here = step_seconds;
    for (const PriceRow& price : thinned(told_apart(prices), 9)) {
      out += fmt::format(
          "           {}  {:>11}  {:>9} {:>6}  {:>11}  {}\n", price.is_chosen ? "=>" : "  ",
          format_bytes_up(price.budget_bytes), format_seconds(price.step_seconds),
          price.is_chosen || here <= 0 ? ""
                                       : report::signed_percent(price.step_seconds / here - 1, 0),
          price.micro_batch,
          price.strategy + (price.two_pass_clip ? ", two passes" : "") +
              (price.packed_weights ? ", packed weights" : ""));
    }
  }
  return out;
}

}  // namespace snug
