// SPDX-License-Identifier: Apache-2.0
#include "choose/saved_plan.h"

#include "choose/run_plan.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "plan/problem/json.h"
#include "plan/problem/liveness.h"
#include "plan/problem/row_runs.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

constexpr const char* kFormat = "snug plan 1";
constexpr int64_t kMaxFileBytes = int64_t{128} << 20;
constexpr io::JsonBounds kJsonBounds = {.max_depth = 12, .max_values = 20'000'000};

// A number, or one by name.
std::string text_of(const Lengths& lengths) {
  if (!lengths.has_names()) return std::to_string(lengths.of());
  std::string text;
  for (const auto& [name, length] : lengths.by_name())
    text += (text.empty() ? "{" : ",") + io::quote_json(name) + ":" + std::to_string(length);
  return text + "}";
}

Lengths lengths_in(const io::JsonValue& json) {
  if (!json.is_object()) return json.as_int(0);
  Lengths lengths;
  for (const std::string& name : json.keys()) lengths.set(name, json.at(name).as_int(1));
  return lengths;
}

std::string text_of(const std::string& kind, const PlannedProgram& program) {
  return R"({"kind":")" + kind + R"(","length":)" + text_of(program.length) + R"(,"plan":)" +
         plan::to_json(program.plan) + "}";
}

}  // namespace

plan::Plan SavedPlan::at(const std::string& kind, const Lengths& length,
                         const plan::Problem& problem) const {
  for (const Program& program : programs) {
    if (program.kind != kind || program.length != length) continue;
    plan::Plan plan = program.plan;
    std::vector<plan::OpId> schedule;
    plan::FusedSteps fused;
    for (const plan::Step& step : plan.steps) {
      schedule.push_back(step.op);
      fused.push_back(step.fused);
    }
    // Times are this machine's.
    if (plan::check_schedule(problem, schedule).empty() &&
        plan::are_row_runs(problem, schedule, fused)) {
      plan.seconds = plan::loads_of(problem, schedule, fused).seconds;
      for (const plan::RowRun& run : plan::row_runs(problem, schedule, fused)) {
        for (int32_t step = run.first; step <= run.last(); ++step)
          plan.steps[step].saved_seconds = run.saved_seconds[static_cast<size_t>(step - run.first)];
      }
    }
    const std::vector<std::string> violations = plan::check(problem, plan);
    if (violations.empty()) return plan;
    throw Error(ErrorCode::bad_data, file,
                "this plan is not for this run: " + kind + " at length " + to_string(length) +
                    ": " + violations.front(),
                "plan again with the same options, and save that plan");
  }
  throw Error(ErrorCode::bad_data, file,
              "this plan has no " + kind + " program for length " + to_string(length),
              "plan again with the same data, and save that plan");
}

SavedPlan read_saved_plan(const std::string& file) {
  SavedPlan saved{.file = file,
                  .micro_batch = 0,
                  .has_two_passes = false,
                  .packs_weights = false,
                  .programs = {}};
  try {
    const io::JsonValue json = io::parse_json(io::read_all(file, kMaxFileBytes), file, kJsonBounds);
    if (json.get_string("format") != kFormat)
      throw Error(ErrorCode::bad_data, file, "the format is not '" + std::string(kFormat) + "'");
    saved.micro_batch = json.get_int("micro_batch");
    // Older files have one pass, and no packed weights.
    if (json.has("two_pass_clip")) saved.has_two_passes = json.get_bool("two_pass_clip");
    if (json.has("packed_weights")) saved.packs_weights = json.get_bool("packed_weights");
    const io::JsonValue programs = json.at("programs");
    for (int64_t i = 0; i < programs.size(); ++i) {
      const io::JsonValue program = programs.at(i);
      saved.programs.push_back({program.get_string("kind"), lengths_in(program.at("length")),
                                plan::plan_from_json(program.at("plan"))});
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_data) throw;
    throw Error(ErrorCode::bad_data, file, "not a saved plan: " + error.message(),
                "`snug plan ... --save-plan FILE` writes one, or SessionPlan::save");
  }
  if (saved.micro_batch < 1)
    throw Error(ErrorCode::bad_data, file, "micro_batch must be at least 1");
  return saved;
}

void write_saved_plan(const std::string& file, const RunPlan& run) {
  std::string programs;
  const auto add = [&](const std::string& kind, const PlannedProgram& program) {
    programs += (programs.empty() ? "" : ",") + text_of(kind, program);
  };
  for (const PlannedProgram& program : run.train) add("train", program);
  for (const PlannedProgram& program : run.eval) add("eval", program);
  if (run.prologue) add("prologue", *run.prologue);
  if (run.update) add("update", *run.update);
  io::replace_file(file, R"({"format":")" + std::string(kFormat) + R"(","model":)" +
                             io::quote_json(run.report.model) + R"(,"micro_batch":)" +
                             std::to_string(run.micro_batch) + R"(,"two_pass_clip":)" +
                             (run.has_two_passes ? "true" : "false") + R"(,"packed_weights":)" +
                             (run.packed.empty() ? "false" : "true") + R"(,"programs":[)" +
                             programs + "]}\n");
}

}  // namespace snug::choose
