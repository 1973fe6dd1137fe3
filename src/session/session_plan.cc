// SPDX-License-Identifier: Apache-2.0
#include "session/session_plan.h"

#include <algorithm>
#include <cmath>

#include "base/stop.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr int64_t kMostThreads = 1024;
constexpr size_t kMostPrograms = 256;

[[noreturn]] void fail(const std::string& option, const std::string& what,
                       const std::string& hint) {
  throw Error(ErrorCode::bad_config, option, what, hint);
}

Settings settings_of(const SessionOptions& options) {
  Settings settings;
  for (const auto& [name, value] : options.optim_args) settings.set(name, value);
  return settings;
}

optim::GroupRules groups_of(const SessionOptions& options) {
  optim::GroupRules groups{.learning_rate = options.learning_rate,
                           .rules = {},
                           .layer_decay = options.layerwise_lr_decay};
  for (const ParameterGroup& group : options.param_groups)
    groups.rules.push_back({group.match, group.learning_rate, group.weight_decay});
  return groups;
}

// What is said for one length alone is true for several: they are above 0 and rise.
void check_lengths(const std::vector<Lengths>& programs) {
  if (programs.empty()) return;
  if (programs.size() > kMostPrograms)
    fail("lengths",
         std::to_string(programs.size()) + " programs are more than " +
             std::to_string(kMostPrograms),
         "give fewer lengths, or those combinations alone that your rows have");
  const Lengths& longest = programs.back();
  for (auto each = programs.begin(); each != programs.end(); ++each) {
    const auto by_name = each->by_name();
    const bool is_any_below = std::any_of(by_name.begin(), by_name.end(),
                                          [](const auto& length) { return length.second < 1; });
    if (each->empty() || is_any_below || (each->of() != 0 && each->has_names()))
      fail("lengths", "a program of length " + to_string(*each),
           "give {32, 64, 128}, for example, or lengths above 0 that have names");
    if (!longest.holds(*each) || by_name.size() != longest.by_name().size())
      fail("lengths",
           "the last program, of length " + to_string(longest) + ", does not hold rows of length " +
               to_string(*each),
           "let lengths rise, have the same names, and end with the longest of each");
    const auto before = std::find_if(programs.begin(), each,
                                     [&](const Lengths& earlier) { return earlier.holds(*each); });
    if (before != each)
      fail("lengths",
           "no batch would run in the program of length " + to_string(*each) + ": that of length " +
               to_string(*before) + " comes before it",
           "let lengths rise");
  }
}

optim::StateStorage storage_of(const SessionOptions& options) {
  optim::StateStorage storage{
      .bits = options.optim_bits,
      .codec = options.optim_codec == "bnb" ? StateCodec::bnb : StateCodec::adaptive};
  for (const StateBits& rule : options.optim_bits_overrides)
    storage.overrides.push_back({rule.match, rule.bits});
  return storage;
}

void check_bits(const char* option, int64_t bits) {
  if (bits != 32 && bits != 8)
    fail(option, std::to_string(bits) + " bits for a state", "give 32 or 8");
}

}  // namespace

void check_options(const SessionOptions& options) {
  if (options.batch_rows < 1)
    fail("batch_rows", "a batch of " + std::to_string(options.batch_rows) + " rows",
         "give 1 or more");
  if (options.micro_batch_size < 0 || options.micro_batch_size > options.batch_rows)
    fail("micro_batch_size",
         std::to_string(options.micro_batch_size) + " is not within the batch of " +
             std::to_string(options.batch_rows),
         "give 0 for the planner's choice, or at most batch_rows");
  if (!(options.learning_rate >= 0 && std::isfinite(options.learning_rate)))
    fail("learning_rate", std::to_string(options.learning_rate) + " is not 0 or more",
         "give 0 or more");
  if (!(options.max_grad_norm >= 0))
    fail("max_grad_norm", std::to_string(options.max_grad_norm) + " is below 0",
         "give 0 for no clipping");
  if (options.lr_scheduler_type != ScheduleKind::constant && options.max_steps < 1)
    fail("max_steps", "a falling learning rate needs to know where it ends", "give max_steps");
  if (options.threads < 0 || options.threads > kMostThreads)
    fail("threads",
         std::to_string(options.threads) + " is not within 0 and " + std::to_string(kMostThreads),
         "give 0 for every core");
  if (options.warmup_steps < 0 || options.max_steps < 0)
    fail(options.warmup_steps < 0 ? "warmup_steps" : "max_steps", "it is below 0",
         "give 0 or more");
  if (!(options.layerwise_lr_decay > 0 && options.layerwise_lr_decay <= 1))
    fail("layerwise_lr_decay", std::to_string(options.layerwise_lr_decay) + " is not within (0, 1]",
         "give 1 for the same rate everywhere");
  check_bits("optim_bits", options.optim_bits);
  for (const StateBits& rule : options.optim_bits_overrides)
    check_bits("optim_bits_overrides", rule.bits);
  if (options.optim_codec != "default" && options.optim_codec != "bnb")
    fail("optim_codec", "there is no codec '" + options.optim_codec + "'", "give default or bnb");
  check_lengths(options.lengths);
}

train::Recipe recipe_of(const SessionOptions& options) {
  const Settings given = settings_of(options);
  return {.optimizer = optim::make_options(options.optim, given, options.weight_decay),
          .max_grad_norm = options.max_grad_norm,
          .given = given,
          .groups = groups_of(options),
          .freeze = options.freeze,
          .updates = !options.only_gradients,
          .states = storage_of(options)};
}

train::UpdateRule update_rule(const SessionOptions& options, const NetworkDef& network) {
  const optim::ScheduleShape shape =
      options.lr_scheduler_type == ScheduleKind::cosine   ? optim::ScheduleShape::cosine
      : options.lr_scheduler_type == ScheduleKind::linear ? optim::ScheduleShape::linear
                                                          : optim::ScheduleShape::constant;
  return {.optimizer = recipe_of(options).optimizer,
          .schedule = {.shape = shape,
                       .warmup_steps = options.warmup_steps,
                       .total_steps = options.max_steps},
          .rates = optim::assign_groups(train::parameter_names(network), groups_of(options)).rates};
}

namespace {

// The programs of rows that are cut off there.
std::vector<Lengths> cut(const std::vector<Lengths>& programs, const Lengths& longest) {
  std::vector<Lengths> shorter;
  for (Lengths program : programs) {
    for (const auto& [name, most] : longest.by_name())
      program.set(name, std::min(program.of(name), most));
    if (std::none_of(shorter.begin(), shorter.end(),
                     [&](const Lengths& earlier) { return earlier.holds(program); }))
      shorter.push_back(program);
  }
  return shorter;
}

// The budget's choice is the empty name of a request.
std::string strategy_of(const SessionOptions& options, const NetworkDef& network) {
  if (options.recompute.empty()) return network.has_marks ? "marked" : "";
  return options.recompute == "auto" ? "" : options.recompute;
}

}  // namespace

train::RunPlan plan_session(const NetworkDef& network, const std::string& name,
                            const SessionOptions& options, int64_t micro_batch,
                            const Backend& backend) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  train::RunPlanRequest request{
      .network = network,
      .recipe = recipe_of(options),
      .global_batch = options.batch_rows,
      .micro_batch = micro_batch,
      .lengths = options.lengths.empty() ? std::vector<Lengths>(1) : options.lengths,
      .strategy = strategy_of(options, network),
      .allow_coupled_split = options.allow_coupled_split,
      .budget_bytes = resolve_memory(options.memory),
      .process_bytes = 0,
      .startup_bytes = 0,
      .trains = true};
  request.words = train::OptionWords::fields;
  request.wants_picture = options.wants_picture;
  if (options.on_planning) {
    request.on_progress = [&options](int64_t done, int64_t total, const char*) {
      options.on_planning(done, total);
    };
  }
  request.resized = [](const train::RunPlanRequest& from, const Lengths& longest,
                       int64_t global_batch) {
    train::RunPlanRequest to = from;
    to.lengths = cut(from.lengths, longest);
    to.global_batch = global_batch;
    return to;
  };
  train::RunPlan plan = train::make_run_plan(request, backend);
  plan.report.model = name;
  return plan;
}

}  // namespace snug
