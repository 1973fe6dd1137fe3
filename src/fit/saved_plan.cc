// SPDX-License-Identifier: Apache-2.0
#include "fit/saved_plan.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "fit/run_plan.h"
#include "io/file.h"
#include "plan/problem/json.h"
#include "plan/problem/liveness.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "snug plan 1";
constexpr int64_t kMaxFileBytes = int64_t{128} << 20;
constexpr JsonBounds kJsonBounds = {.max_depth = 12, .max_values = 20'000'000};

[[noreturn]] void refuse(const std::string& file, const std::string& reason) {
  throw Error(ErrorCode::bad_data, file, "not a saved plan: " + reason,
              "`snug plan ... --save-plan FILE` writes one");
}

Json json_of(const std::string& kind, const PlannedProgram& program) {
  return {{"kind", kind},
          {"length", program.length},
          {"plan", Json::parse(plan::to_json(program.plan))}};
}

}  // namespace

plan::Plan SavedPlan::at(const std::string& kind, int64_t length,
                         const plan::Problem& problem) const {
  for (const Program& program : programs) {
    if (program.kind != kind || program.length != length) continue;
    plan::Plan plan = program.plan;
    std::vector<plan::OpId> schedule;
    for (const plan::Step& step : plan.steps) schedule.push_back(step.op);
    if (plan::check_schedule(problem, schedule).empty())
      plan.seconds = plan::analyse(problem, schedule).seconds;
    const std::vector<std::string> violations = plan::check(problem, plan);
    if (violations.empty()) return plan;
    throw Error(ErrorCode::bad_data, file,
                "this plan is not for this run: " + kind + " at length " + std::to_string(length) +
                    ": " + violations.front(),
                "plan again with the same keys and --save-plan");
  }
  throw Error(ErrorCode::bad_data, file,
              "this plan has no " + kind + " program for length " + std::to_string(length),
              "plan again with the same data and --save-plan");
}

SavedPlan read_saved_plan(const std::string& file) {
  const std::string text = io::read_all(file, kMaxFileBytes);
  SavedPlan saved{.file = file, .micro_batch = 0, .programs = {}};
  try {
    const Json json = parse_bounded_json<Json>(text, kJsonBounds);
    if (json.at("format").get<std::string>() != kFormat)
      throw Error(ErrorCode::bad_data, file, "the format is not '" + std::string(kFormat) + "'");
    saved.micro_batch = whole_number(json.at("micro_batch"), "micro_batch");
    for (const Json& program : json.at("programs")) {
      saved.programs.push_back({program.at("kind").get<std::string>(),
                                whole_number(program.at("length"), "length"),
                                plan::plan_from_json(program.at("plan").dump())});
    }
  } catch (const BadJson& error) {
    refuse(file, error.what());
  } catch (const Json::exception& error) {
    refuse(file, error.what());
  }
  if (saved.micro_batch < 1)
    throw Error(ErrorCode::bad_data, file, "micro_batch must be at least 1");
  return saved;
}

void write_saved_plan(const std::string& file, const RunPlan& run) {
  Json programs = Json::array();
  for (const PlannedProgram& program : run.train) programs.push_back(json_of("train", program));
  for (const PlannedProgram& program : run.eval) programs.push_back(json_of("eval", program));
  if (run.update) programs.push_back(json_of("update", *run.update));
  const Json json = {{"format", kFormat},
                     {"model", run.report.model},
                     {"micro_batch", run.micro_batch},
                     {"programs", programs}};
  io::replace_file(file, json.dump() + "\n");
}

}  // namespace snug::train
