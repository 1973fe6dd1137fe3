// SPDX-License-Identifier: Apache-2.0
#include "verbs.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <type_traits>
#include <utility>

#include "error_text.h"
#include "snug/files.h"
#include "snug/instruction_set.h"
#include "snug/solve.h"
#include "snug/solve_remat.h"
#include "snug/tokenize.h"

namespace snug::c_api {
namespace {

std::string json_of(const Progress& progress) {
  return dumped({{"stage", progress.stage},
                 {"done", progress.done},
                 {"total", progress.total},
                 {"phase", progress.phase}});
}

std::string json_of(const UpdateLog& log) {
  return dumped({{"step", log.step},
                 {"total_steps", log.total_steps},
                 {"epoch", number(log.epoch)},
                 {"loss", number(log.loss)},
                 {"learning_rate", number(log.learning_rate)},
                 {"grad_norm", number(log.grad_norm)},
                 {"tokens_per_second", number(log.tokens_per_second)},
                 {"arena_peak_bytes", log.arena_peak_bytes},
                 {"rss_bytes", log.rss_bytes},
                 {"loss_scale", number(log.loss_scale)},
                 {"skipped_updates", log.skipped_updates}});
}

std::string json_of(const Warning& warning) {
  Json json = {{"code", warning.code}, {"text", warning.text}, {"count", warning.count}};
  if (warning.share) json["share"] = number(*warning.share);
  return dumped(json);
}

std::string quoted(const std::string& text) { return dumped(Json(text)); }

std::string with_text(const std::string& json, const std::string& text) {
  return "{\"json\":" + json + ",\"text\":" + quoted(text) + "}";
}

std::string plan_verb(Call& call) {
  const RunConfig config = call.config();
  RunOptions options = call.run_options();
  options.plan_file = call.option("plan");
  options.save_plan_file = call.option("save_plan");
  options.save_problem_file = call.option("save_problem");
  options.save_schedule_file = call.option("save_schedule");
  options.wants_picture = call.flag("html");
  call.check_options();
  const PlanReport report = plan_run(config, options);
  std::string result = "{\"json\":" + report.to_json() + ",\"text\":" + quoted(report.to_text());
  if (options.wants_picture) result += ",\"html\":" + quoted(report.to_html());
  return result + "}";
}

std::string train_verb(Call& call) {
  const RunConfig config = call.config();
  RunOptions options = call.run_options();
  options.plan_file = call.option("plan");
  options.save_plan_file = call.option("save_plan");
  call.check_options();
  options.callbacks.on_plan = [&](const PlanReport& report) {
    call.tell("plan", with_text(report.to_json(), report.to_text()));
  };
  options.callbacks.on_update = [&](const UpdateLog& log) { call.tell("update", json_of(log)); };
  options.callbacks.on_evaluation = [&](int64_t step, const EvalMetrics& metrics) {
    call.tell("evaluation",
              "{\"step\":" + std::to_string(step) + ",\"metrics\":" + to_json(metrics) + "}");
  };
  options.callbacks.on_checkpoint = [&](int64_t step, const std::string& folder) {
    call.tell("checkpoint", dumped({{"step", step}, {"folder", folder}}));
  };
  return train_model(config, options).to_json();
}

// A run without options of its verb's own.
struct PlainRun {
  RunConfig config;
  RunOptions options;
};
PlainRun plain_run(Call& call) {
  PlainRun run{call.config(), call.run_options()};
  call.check_options();
  return run;
}

std::string levers_verb(Call& call) {
  const PlainRun run = plain_run(call);
  const std::vector<LeverPlan> plans = plan_levers(run.config, run.options);
  return with_text(to_json(plans), to_text(plans, resolve_memory(run.config.memory)));
}

std::string evaluate_verb(Call& call) {
  const PlainRun run = plain_run(call);
  return to_json(evaluate_model(run.config, run.options));
}

// Tells one row after the other; the result is how many they were.
class RowTeller {
 public:
  RowTeller(Call& call, const char* verb) : call_(call), verb_(verb) {}
  void tell(const std::string& json) {
    ++rows_;
    call_.tell("row", json);
    if (call_.stop()->load()) throw Error(ErrorCode::cancelled, verb_, "stopped on request");
  }
  [[nodiscard]] std::string result() const { return std::to_string(rows_); }

 private:
  Call& call_;
  const char* verb_;
  int64_t rows_ = 0;
};

std::string predict_verb(Call& call) {
  const PlainRun run = plain_run(call);
  RowTeller rows(call, "predict");
  predict_rows(
      run.config, [&](const Prediction& prediction) { rows.tell(prediction.to_json()); },
      run.options);
  return rows.result();
}

std::string tokenize_verb(Call& call) {
  const PlainRun run = plain_run(call);
  RowTeller rows(call, "tokenize");
  tokenize_rows(
      run.config, [&](const std::vector<int32_t>& ids) { rows.tell(dumped(Json(ids))); },
      run.options);
  return rows.result();
}

std::string inspect_verb(Call& call) {
  const RunConfig config = call.config();
  RunOptions options = call.run_options();
  options.lists_weights = call.flag("weights");
  const bool is_text = call.flag("text");
  call.check_options();
  const std::string found = inspect_run(config, !is_text, options);
  return is_text ? quoted(found) : found;
}

std::string explain_verb(Call& call) {
  const RunConfig config = call.config();
  RunOptions options = call.run_options();
  options.wants_stage_texts = call.flag("stages");
  call.check_options();
  const Explanation explanation = explain_run(config, options);
  return with_text(explanation.to_json(), explanation.to_text());
}

std::string verify_verb(Call& call) {
  const PlainRun run = plain_run(call);
  return verify_run(run.config, run.options).to_json();
}

// Verbs of folders.
std::string merge_verb(Call& call) {
  const std::string model = call.required("model_folder");
  const std::string adapters = call.required("adapters");
  const std::string output = call.required("output");
  const RunOptions options = call.run_options();
  call.check_options();
  merge_adapters(model, adapters, output, options);
  return quoted(output);
}

std::string convert_verb(Call& call) {
  const std::string file = call.required("weights_file");
  const std::string output = call.required("output");
  const RunOptions options = call.run_options();
  call.check_options();
  convert_weights(file, output, options);
  return quoted(output);
}

std::string export_verb(Call& call) {
  const std::string model = call.required("model_folder");
  const std::string output = call.required("output");
  const std::string dtype = call.option("dtype");
  const RunOptions options = call.run_options();
  call.check_options();
  export_model(model, output, dtype, options);
  return quoted(output);
}

RematRequest remat_request(Call& call) {
  RematRequest request;
  request.file = call.required("problem");
  const std::string order = call.option("order");
  if (!order.empty() && order != "given" && order != "free")
    throw Error(ErrorCode::bad_config, "order", "\"" + order + "\" is no order",
                "given and free are");
  request.may_reorder = order != "given";
  if (const std::string effort = call.option("effort"); !effort.empty())
    request.effort = parse_effort(effort);
  if (const std::string limit = call.option("time_limit"); !limit.empty())
    request.time_limit_seconds = parse_time_limit(limit);
  request.cancel = call.stop();
  return request;
}

DoesNotFit refusal_of(const RematReport& report) {
  const WayToFit least{.keys = {{"memory", std::to_string(report.peak_bytes)}},
                       .least_bytes = report.peak_bytes,
                       .text = "the smallest peak that was found"};
  return DoesNotFit("memory", report.refusal(),
                    {.proof = report.refusal(),
                     .smallest_bytes = report.peak_bytes,
                     .bound_bytes = report.lower_bound_peak_bytes,
                     .ways = {least}});
}

// The planner alone says nothing while it works, which may take minutes: it works on a thread of
// its own, and the caller is asked meanwhile whether to go on.
template <typename Work>
std::invoke_result_t<Work> asking(Call& call, Work work) {
  if (!call.is_heard()) return work();
  std::future<std::invoke_result_t<Work>> done = std::async(std::launch::async, std::move(work));
  while (done.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
    call.tell("waiting", "null");
  return done.get();
}

std::string solve_remat_verb(Call& call) {
  RematRequest request = remat_request(call);
  request.budget = call.required("budget");
  call.check_options();
  const RematReport report = asking(call, [&] { return solve_remat(request); });
  if (report.fits) return report.to_json();
  if (call.stop()->load())
    throw Error(ErrorCode::cancelled, request.file,
                "stopped on request; no schedule was found yet");
  throw ReportedRefusal(refusal_of(report), report.to_json());
}

std::string solve_curve_verb(Call& call) {
  const RematRequest request = remat_request(call);
  call.check_options();
  return asking(call, [&] { return remat_curve(request); }).to_json();
}

std::string solve_check_verb(Call& call) {
  const std::string problem = call.required("problem");
  const std::string schedule = call.required("schedule");
  call.check_options();
  return check_remat(problem, schedule).to_json();
}

void read_limits(Call& call, PlacementRequest& request) {
  if (const std::string capacity = call.option("capacity"); !capacity.empty())
    request.capacity = parse_capacity(capacity);
  if (const std::string nodes = call.option("max_nodes"); !nodes.empty())
    request.max_nodes = parse_max_nodes(nodes);
  request.cancel = call.stop();
  call.check_options();
}

std::string solve_placement_verb(Call& call) {
  PlacementRequest request;
  request.name = call.required("csv");
  request.items = read_placement_csv(request.name);
  read_limits(call, request);
  const PlacementResult placed = asking(call, [&] { return solve_placement(request); });
  return "{\"json\":" + placed.to_json() + ",\"offsets\":" + dumped(Json(placed.offsets)) + "}";
}

std::string options_verb(Call& call) {
  call.check_options();
  return config_options_json();
}

std::string version_verb(Call& call) {
  call.check_options();
  return dumped({{"version", SNUG_VERSION}, {"instruction_set", to_string(instruction_set())}});
}

struct Verb {
  const char* name;
  std::string (*run)(Call&);
};
constexpr Verb kVerbs[] = {
    {"inspect", inspect_verb},
    {"plan", plan_verb},
    {"levers", levers_verb},
    {"train", train_verb},
    {"evaluate", evaluate_verb},
    {"predict", predict_verb},
    {"explain", explain_verb},
    {"verify", verify_verb},
    {"merge", merge_verb},
    {"convert", convert_verb},
    {"export", export_verb},
    {"tokenize", tokenize_verb},
    {"solve_remat", solve_remat_verb},
    {"solve_curve", solve_curve_verb},
    {"solve_check", solve_check_verb},
    {"solve_placement", solve_placement_verb},
    {"options", options_verb},
    {"version", version_verb},
};

}  // namespace

RunConfig Call::config() {
  const std::string file = option("file");
  const std::string yaml = option("yaml");
  if (!file.empty() && !yaml.empty())
    throw Error(ErrorCode::bad_config, "file", "a configuration is a file or a text, not both");
  RunConfig config = yaml.empty() ? RunConfig::load(file, keys())
                                  : RunConfig::parse(yaml, "configuration", keys());
  for (const std::string& notice : config.notices) tell("notice", quoted(notice));
  return config;
}

RunOptions Call::run_options() {
  RunOptions options;
  options.cancel = &stop_;
  options.profile_folder = option("profile_folder");
  if (const std::string bytes = option("host_bytes"); !bytes.empty()) {
    options.budgets_whole_process = true;
    options.host_bytes = whole_number("host_bytes", bytes);
    if (options.host_bytes < 0)
      throw Error(ErrorCode::bad_config, "host_bytes", "\"" + bytes + "\" is below 0");
  }
  options.callbacks.on_progress = [this](const Progress& progress) {
    tell("progress", json_of(progress));
  };
  options.callbacks.on_message = [this](const std::string& text) { tell("message", quoted(text)); };
  options.callbacks.on_warning = [this](const Warning& warning) {
    tell("warning", json_of(warning));
  };
  return options;
}

void Call::tell(const char* kind, const std::string& json) {
  if (event_ != nullptr && event_(context_, kind, json.c_str()) != 0) stop_.store(true);
}

std::string run_verb(const std::string& verb, Call& call) {
  (void)instruction_set();  // a limit that there is not ends every verb
  for (const Verb& each : kVerbs) {
    if (verb == each.name) return each.run(call);
  }
  throw Error(ErrorCode::bad_config, verb, "there is no such verb");
}

std::string place_arrays(const PlacementArrays& arrays, Call& call) {
  PlacementRequest request;
  read_limits(call, request);
  request.items.resize(arrays.count);
  for (size_t i = 0; i < arrays.count; ++i) {
    request.items[i] = {.id = std::to_string(i),
                        .lower = arrays.lower[i],
                        .upper = arrays.upper[i],
                        .size = arrays.size[i]};
  }
  const PlacementResult placed = asking(call, [&] { return solve_placement(request); });
  std::copy(placed.offsets.begin(), placed.offsets.end(), arrays.offsets);
  return placed.to_json();
}

}  // namespace snug::c_api
