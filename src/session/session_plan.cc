// SPDX-License-Identifier: Apache-2.0
#include "session/session_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "compile/draws.h"
#include "compile/lora.h"
#include "compile/precision.h"
#include "compile/weight_storage.h"
#include "fit/saved_plan.h"
#include "fit/splits.h"
#include "io/file.h"
#include "snug/error.h"
#include "snug/instruction_set.h"
#include "solve/remat_write.h"

namespace snug {
namespace {

constexpr int64_t kMostThreads = 1024;
constexpr size_t kMostPrograms = 256;

[[noreturn]] void refuse_option(const std::string& option, const std::string& what,
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
    refuse_option("lengths",
                  std::to_string(programs.size()) + " programs are more than " +
                      std::to_string(kMostPrograms),
                  "give fewer lengths, or those combinations alone that your rows have");
  const Lengths& longest = programs.back();
  for (auto each = programs.begin(); each != programs.end(); ++each) {
    const auto by_name = each->by_name();
    const bool is_any_below = std::any_of(by_name.begin(), by_name.end(),
                                          [](const auto& length) { return length.second < 1; });
    if (each->empty() || is_any_below || (each->of() != 0 && each->has_names()))
      refuse_option("lengths", "a program of length " + to_string(*each),
                    "give {32, 64, 128}, for example, or lengths above 0 that have names");
    if (!longest.holds(*each) || by_name.size() != longest.by_name().size())
      refuse_option("lengths",
                    "the last program, of length " + to_string(longest) +
                        ", does not hold rows of length " + to_string(*each),
                    "let lengths rise, have the same names, and end with the longest of each");
    const auto before = std::find_if(programs.begin(), each,
                                     [&](const Lengths& earlier) { return earlier.holds(*each); });
    if (before != each)
      refuse_option("lengths",
                    "no batch would run in the program of length " + to_string(*each) +
                        ": that of length " + to_string(*before) + " comes before it",
                    "let lengths rise");
  }
}

optim::StateStorage storage_of(const SessionOptions& options) {
  return optim::make_storage(options.optim_bits, options.optim_codec, options.optim_bits_overrides);
}

// f32, or what one of two switches that exclude each other asks for.
DType half_of(const char* names, bool bf16, bool fp16) {
  if (bf16 && fp16) refuse_option(names, "both are asked for", "give one of them");
  return bf16 ? DType::bf16 : fp16 ? DType::f16 : DType::f32;
}

DType dtype_of(const PrecisionRule& rule) {
  for (const auto& [name, dtype] :
       {std::pair{"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}}) {
    if (rule.dtype == name) return dtype;
  }
  refuse_option("precision_overrides", "'" + rule.dtype + "' is no type",
                "give float32, bfloat16 or float16");
}

train::Precision precision_of(const SessionOptions& options) {
  train::Precision precision;
  precision.training.dtype = half_of("bf16, fp16", options.bf16, options.fp16);
  for (const PrecisionRule& rule : options.precision_overrides)
    precision.training.overrides.push_back({rule.match, dtype_of(rule)});
  precision.evaluation = precision.training;
  precision.evaluation.refuses_unused = options.only_evaluation;
  const DType of_evaluation =
      half_of("bf16_full_eval, fp16_full_eval", options.bf16_full_eval, options.fp16_full_eval);
  if (of_evaluation != DType::f32) precision.evaluation.dtype = of_evaluation;
  return precision;
}

// What "auto" stands for is decided here: gradients in f16 overflow, and vanish, without one.
optim::LossScaleRule loss_scale_of(const SessionOptions& options) {
  const MixedPrecision training = precision_of(options).training;
  const bool has_f16 = training.dtype == DType::f16 ||
                       std::any_of(training.overrides.begin(), training.overrides.end(),
                                   [](const auto& rule) { return rule.dtype == DType::f16; });
  const bool is_open = options.loss_scale == "auto" && has_f16 && !options.only_gradients;
  return optim::make_loss_scale(is_open ? "dynamic" : options.loss_scale, options.loss_scale_min);
}

// What refines a switch that is off would change nothing.
void check_effect(const SessionOptions& options) {
  const optim::StateStorage storage = storage_of(options);
  if (!optim::has_codes(storage.bits, storage.overrides)) {
    const char* hint = "give optim_bits 8 too, or leave it away";
    if (!options.optim_bits_overrides.empty())
      refuse_option("optim_bits_overrides", "every state is in 32 bits anyway", hint);
    if (options.optim_codec != SessionOptions().optim_codec)
      refuse_option("optim_codec", "no state is in 8 bits", hint);
  }
  if (!options.lora.is_on() && options.lora != LoraOptions())
    refuse_option("lora", "no weight has an adapter",
                  "name linear maps in lora.match, or leave it away");
  const train::Precision precision = precision_of(options);
  const std::vector<PrecisionOverride>& rules = precision.training.overrides;
  const bool is_any_narrow = precision.training.dtype != DType::f32 ||
                             precision.evaluation.dtype != DType::f32 ||
                             std::any_of(rules.begin(), rules.end(),
                                         [](const auto& rule) { return rule.dtype != DType::f32; });
  if (!rules.empty() && !is_any_narrow)
    refuse_option("precision_overrides", "everything is in float32 anyway",
                  "give bf16 or fp16 too, or leave it away");
}

constexpr int64_t kMostRows = INT32_MAX;  // indices of kernels are of 31 bits

// Throws Error{bad_config} that names the option.
const SessionOptions& checked(const SessionOptions& options) {
  if (options.batch_rows < 1 || options.batch_rows > kMostRows)
    refuse_option("batch_rows", "a batch of " + std::to_string(options.batch_rows) + " rows",
                  "give 1 to " + std::to_string(kMostRows));
  check_not_negative("weight_decay", options.weight_decay, "give 0 for none");
  if (options.memory.bytes < 0)
    refuse_option("memory", std::to_string(options.memory.bytes) + " bytes are below 0",
                  "give a number of bytes, for example parse_memory(\"64MiB\")");
  if (options.seed < 0)
    refuse_option("seed", std::to_string(options.seed) + " is below 0", "give 0 or more");
  if (options.block.data() == nullptr && !options.block.empty())
    refuse_option("block", "it has " + std::to_string(options.block.size()) + " bytes at no place",
                  "give memory that lives as long as the session");
  if (options.micro_batch_size < 0 || options.micro_batch_size > options.batch_rows)
    refuse_option("micro_batch_size",
                  std::to_string(options.micro_batch_size) + " is not within the batch of " +
                      std::to_string(options.batch_rows),
                  "give 0 for the planner's choice, or at most batch_rows");
  check_not_negative("learning_rate", options.learning_rate, "give 0 or more");
  if (!(options.max_grad_norm >= 0))
    refuse_option("max_grad_norm", number_text(options.max_grad_norm) + " is below 0",
                  "give 0 for no clipping");
  if (options.lr_scheduler_type != ScheduleKind::constant && options.max_steps < 1)
    refuse_option("max_steps", "a falling learning rate needs to know where it ends",
                  "give max_steps");
  if (options.threads < 0 || options.threads > kMostThreads)
    refuse_option(
        "threads",
        std::to_string(options.threads) + " is not within 0 and " + std::to_string(kMostThreads),
        "give 0 for every core");
  if (options.warmup_steps < 0 || options.max_steps < 0)
    refuse_option(options.warmup_steps < 0 ? "warmup_steps" : "max_steps", "it is below 0",
                  "give 0 or more");
  if (!(options.layerwise_lr_decay > 0 && options.layerwise_lr_decay <= 1))
    refuse_option("layerwise_lr_decay",
                  number_text(options.layerwise_lr_decay) + " is not within (0, 1]",
                  "give 1 for the same rate everywhere");
  check_effect(options);
  (void)loss_scale_of(options);
  check_lengths(options.lengths);
  if (options.only_gradients && options.only_evaluation)
    refuse_option("only_evaluation", "a session without training programs has no gradients",
                  "leave only_gradients away");
  if (options.process_bytes < 0 || options.startup_bytes < 0)
    refuse_option(options.process_bytes < 0 ? "process_bytes" : "startup_bytes", "it is below 0",
                  "give 0 or more");
  return options;
}

}  // namespace

void check_not_negative(const char* option, double value, const char* hint) {
  if (!(value >= 0 && std::isfinite(value)))
    refuse_option(option, number_text(value) + " is not 0 or more", hint);
}

train::Recipe recipe_of(const SessionOptions& options) {
  const Settings given = settings_of(options);
  return {.optimizer = optim::make_options(options.optim, given, options.weight_decay),
          .max_grad_norm = options.max_grad_norm,
          .given = given,
          .groups = groups_of(options),
          .freeze = options.freeze,
          .updates = !options.only_gradients,
          .states = storage_of(options),
          .scaling = loss_scale_of(options).scaling};
}

NetworkDef changed_network(NetworkDef network, const SessionOptions& options) {
  network = train::with_numbered_draws(std::move(network));
  network = train::with_lora(std::move(network), options.lora);
  const train::WeightStorage storage =
      train::make_weight_storage(options.freeze, options.frozen_dtype, options.weight_dtype);
  network = train::with_weight_storage(std::move(network), storage);
  network = train::with_precision(std::move(network), precision_of(options));
  return train::with_direct_reads(std::move(network), storage);
}

DescribedNetwork described(const Network& network, const SessionOptions& options) {
  return describe_network(network, options.lengths, options.draw_numbering);
}

Machine machine_of(const SessionOptions& options) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  return options.machine ? *options.machine
                         : Machine(options.threads, options.profile_folder, {}, options.on_message);
}

namespace {

train::UpdateRule rule_of(const SessionOptions& options, const NetworkDef& network) {
  const optim::ScheduleShape shape =
      options.lr_scheduler_type == ScheduleKind::cosine   ? optim::ScheduleShape::cosine
      : options.lr_scheduler_type == ScheduleKind::linear ? optim::ScheduleShape::linear
                                                          : optim::ScheduleShape::constant;
  return {.optimizer = recipe_of(options).optimizer,
          .schedule = {.shape = shape,
                       .warmup_steps = options.warmup_steps,
                       .total_steps = options.max_steps},
          .rates = optim::assign_groups(train::parameter_names(network), groups_of(options)).rates,
          .loss_scale = loss_scale_of(options)};
}

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

// What a session takes whose rows are no longer than `longest`.
SessionSizes resized(const SessionOptions& options, const Lengths& longest, int64_t batch_rows) {
  if (options.resized) return options.resized(longest, batch_rows);
  return {.lengths = cut(options.lengths, longest),
          .batch_rows = batch_rows,
          .process_bytes = options.process_bytes,
          .startup_bytes = options.startup_bytes};
}

}  // namespace

train::RunPlanRequest plan_request(const NetworkDef& network, const SessionOptions& options,
                                   int64_t micro_batch) {
  train::RunPlanRequest request{
      .network = network,
      .recipe = options.only_evaluation ? train::Recipe{} : recipe_of(options),
      .global_batch = options.batch_rows,
      .micro_batch = micro_batch,
      .lengths = options.lengths.empty() ? std::vector<Lengths>(1) : options.lengths,
      .strategy = strategy_of(options, network),
      .allow_coupled_split = options.allow_coupled_split,
      .two_pass_clip = options.two_pass_clip,
      .budget_bytes = resolve_memory(options.memory),
      .process_bytes = options.process_bytes,
      .startup_bytes = options.startup_bytes,
      .trains = !options.only_evaluation};
  const MixedPrecision training = precision_of(options).training;
  request.has_coded_weights = options.weight_dtype != "float32";
  request.has_coded_frozen = options.frozen_dtype != "float32";
  request.has_16_bits = training.dtype != DType::f32 || !training.overrides.empty();
  request.words = options.has_command_line_hints ? train::OptionWords::command_line
                                                 : train::OptionWords::fields;
  request.may_take_levers = options.may_take_levers;
  request.taken_levers = options.taken_levers;
  request.wants_picture = options.wants_picture;
  request.on_progress = options.on_planning;
  request.resized = [&options](const train::RunPlanRequest& from, const Lengths& longest,
                               int64_t global_batch) {
    const SessionSizes sizes = resized(options, longest, global_batch);
    train::RunPlanRequest to = from;
    if (!sizes.lengths.empty()) to.lengths = sizes.lengths;
    to.global_batch = sizes.batch_rows;
    to.process_bytes = sizes.process_bytes;
    to.startup_bytes = sizes.startup_bytes;
    // Evaluation has no batch but its micro-batches.
    if (options.only_evaluation && from.micro_batch > 0) to.micro_batch = sizes.batch_rows;
    return to;
  };
  return request;
}

namespace {

std::string precision_text(const SessionOptions& options) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto name_of = [](bool bf16, bool fp16) {
    return std::string(bf16 ? "bf16" : fp16 ? "fp16" : "");
  };
  const std::string training = name_of(options.bf16, options.fp16);
  const std::string evaluation = name_of(options.bf16_full_eval, options.fp16_full_eval);
  if (!training.empty()) add(training);
  if (!evaluation.empty() && evaluation != training) add("evaluation " + evaluation);
  if (options.weight_dtype != "float32") add("trained weights " + options.weight_dtype);
  if (options.frozen_dtype != "float32") add("frozen weights " + options.frozen_dtype);
  for (const PrecisionRule& rule : options.precision_overrides) add(rule.match + " " + rule.dtype);
  return text;
}

train::RunPlan planned(const Network& network, const NetworkDef& def, const SessionOptions& options,
                       int64_t micro_batch, const Backend& backend) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  train::RunPlanRequest request = plan_request(def, options, micro_batch);
  request.changed = [&](const LeverKeys& keys) { return request_with(network, options, keys); };
  std::optional<train::SavedPlan> saved;
  if (!options.plan_file.empty()) {
    saved = train::read_saved_plan(options.plan_file);
    if (micro_batch > 0 && micro_batch != saved->micro_batch)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has micro-batches of " + std::to_string(saved->micro_batch) +
                      ", this run needs " + std::to_string(micro_batch));
    request.saved = &*saved;
    request.micro_batch = saved->micro_batch;
    if (options.two_pass_clip && *options.two_pass_clip != saved->has_two_passes)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has two_pass_clip " +
                      std::string(saved->has_two_passes ? "true" : "false") +
                      ", this run asks for the other",
                  "leave two_pass_clip away");
    request.two_pass_clip = saved->has_two_passes;
    request.packs_weights = saved->packs_weights;
  }
  return train::make_run_plan(request, backend);
}

}  // namespace

SessionPlan::Impl::Impl(const Network& network, const SessionOptions& given, int64_t micro_batch)
    : options(checked(given)), name(network.name()), machine(machine_of(options)) {
  DescribedNetwork found = described(network, options);
  def = changed_network(std::move(found.def), options);
  facts = std::move(found.facts);
  const std::string unshared = unshared_notice(facts);
  if (!unshared.empty() && options.on_message) options.on_message(unshared);
  if (!options.only_evaluation) {
    rule = rule_of(options, def);
    const std::vector<std::string> names =
        train::trainable_names(train::parameter_names(def), options.freeze, def.is_frozen);
    trained.insert(names.begin(), names.end());
  }
  plan = planned(network, def, options, micro_batch, *machine.impl().backend);
  plan.report.model = name;
  plan.report.precision = precision_text(options);
  plan.report.instruction_set = to_string(instruction_set());
}

std::shared_ptr<const SessionPlan::Impl> make_plan(const Network& network,
                                                   const SessionOptions& options,
                                                   int64_t micro_batch) {
  const DefaultFloatMode float_mode;
  return std::make_shared<const SessionPlan::Impl>(network, options, micro_batch);
}

SessionPlan::SessionPlan(const Network& network, const SessionOptions& options)
    : impl_(make_plan(network, options, options.micro_batch_size)) {}

const PlanReport& SessionPlan::report() const { return impl_->plan.report; }

void SessionPlan::save(const std::string& file) const {
  train::write_saved_plan(file, impl_->plan);
}

void SessionPlan::save_problem(const std::string& file) const {
  io::replace_file(file, solve::remat_problem_json(impl_->plan.train.back().lowered.problem));
}

void SessionPlan::save_schedule(const std::string& file) const {
  const train::PlannedProgram& program = impl_->plan.train.back();
  std::vector<plan::OpId> schedule;
  for (const plan::Step& step : program.plan.steps) schedule.push_back(step.op);
  io::replace_file(file, solve::remat_schedule_json(program.lowered.problem, schedule));
}

double SessionPlan::summands(const Lengths& length) const {
  double sum = 0;
  for (const train::PlannedProgram& program : impl_->plan.train) {
    if (program.length != length) continue;
    for (size_t i = 0; i < program.graph.nodes.size(); ++i) {
      const NodeSpec spec = spec_of(program.graph, static_cast<NodeId>(i));
      double elements = 0;
      for (const TensorType& type : spec.outputs)
        elements += static_cast<double>(element_count(type));
      const double flops = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs}).flops;
      sum += std::max(1.0, flops / std::max(1.0, elements));
    }
  }
  return sum;
}

PlanReport plan_network(const Network& network, const SessionOptions& options) {
  return SessionPlan(network, options).report();
}

std::vector<int64_t> splits_of(int64_t batch_rows) { return train::micro_batches(batch_rows); }

std::vector<TensorInfo> tensors_of(const Network& network, const SessionOptions& options) {
  const DefaultFloatMode float_mode;
  const NetworkDef def = changed_network(described(network, options).def, options);
  const std::vector<std::string> names = train::parameter_names(def);
  const std::vector<std::string> trained =
      train::trainable_names(names, options.freeze, def.is_frozen);
  (void)optim::assign_groups(names, groups_of(options));
  const std::set<std::string> is_trained(trained.begin(), trained.end());
  const std::vector<Value> weights = train::weights_of(def);
  std::set<std::string> scales;
  for (const Value& value : weights) {
    if (train::is_coded_weight(value.kind, value.type.dtype))
      scales.insert(value.name + train::kScalesSuffix);
  }
  std::vector<TensorInfo> found;
  for (const Value& value : weights) {
    found.push_back({.name = value.name,
                     .shape = value.type.shape,
                     .dtype = value.type.dtype,
                     .kind = value.kind == ValueKind::parameter ? TensorKind::parameter
                             : scales.count(value.name) != 0    ? TensorKind::scales
                                                                : TensorKind::buffer,
                     .is_trained = is_trained.count(value.name) != 0});
  }
  return found;
}

}  // namespace snug
