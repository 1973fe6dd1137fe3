// SPDX-License-Identifier: Apache-2.0
#include "session/session_plan.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/float_mode.h"
#include "base/stop.h"
#include "choose/fusion_check.h"
#include "choose/saved_plan.h"
#include "choose/sizes.h"
#include "compile/compile.h"
#include "compile/weight_storage.h"
#include "io/file.h"
#include "snug/error.h"
#include "snug/instruction_set.h"
#include "solve/remat_write.h"
#include "spec/table.h"

namespace snug::session {

using compile::NetworkDef;

NetworkDef changed_network(NetworkDef network, const ResolvedSpec& resolved) {
  return compile::with_changes(std::move(network), resolved.changes);
}

network::DescribedNetwork described(const Network& network, const SessionOptions& options) {
  return network::describe_network(network, options.lengths, options.draw_numbering);
}

Machine machine_of(const SessionOptions& options) {
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  return options.machine ? *options.machine
                         : Machine(options.threads, options.profile_folder, {}, options.on_message);
}

namespace {

void check_block(std::span<const std::byte> block) {
  if (block.data() == nullptr && !block.empty())
    throw Error(ErrorCode::bad_config, "block",
                "it has " + std::to_string(block.size()) + " bytes at no place",
                "give memory that lives as long as the session");
}

UpdateRule rule_of(const ResolvedSpec& resolved, const NetworkDef& network) {
  return {.optimizer = resolved.recipe.optimizer,
          .schedule = resolved.schedule,
          .rates =
              optim::assign_groups(compile::parameter_names(network), resolved.recipe.groups).rates,
          .loss_scale = resolved.loss_scale};
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
SessionSizes resized(const RunSession& session, const Lengths& longest, int64_t batch_rows) {
  if (session.resized) return session.resized(longest, batch_rows);
  const SessionOptions& options = session.options;
  return {.lengths = cut(options.lengths, longest),
          .batch_rows = batch_rows,
          .process_bytes = options.process_bytes,
          .startup_bytes = options.startup_bytes};
}

}  // namespace

choose::RunPlanRequest plan_request(const NetworkDef& network, const RunSession& session,
                                    const ResolvedSpec& resolved, int64_t micro_batch) {
  const SessionOptions& options = session.options;
  choose::RunPlanRequest request{
      .network = network,
      .recipe = options.only_evaluation ? compile::Recipe{} : resolved.recipe,
      .global_batch = options.batch_rows,
      .micro_batch = micro_batch,
      .lengths = options.lengths.empty() ? std::vector<Lengths>(1) : options.lengths,
      .strategy = strategy_of(options, network),
      .allow_coupled_split = options.allow_coupled_split,
      .two_pass_clip = options.two_pass_clip,
      .fusion = resolved.fusion,
      .budget_bytes = resolve_memory(options.memory),
      .process_bytes = options.process_bytes,
      .startup_bytes = options.startup_bytes,
      .trains = !options.only_evaluation};
  const compile::MixedPrecision& training = resolved.changes.training;
  request.has_coded_weights = options.weight_dtype != "float32";
  request.has_coded_frozen = options.frozen_dtype != "float32";
  request.has_16_bits = training.dtype != DType::f32 || !training.overrides.empty();
  request.words =
      session.has_command_line_hints ? spec::OptionWords::command_line : spec::OptionWords::fields;
  request.may_take_levers = session.may_take_levers;
  request.taken_levers = session.taken_levers;
  request.wants_picture = options.wants_picture;
  request.reads_ahead = session.reads_ahead;
  request.row_file_bytes = session.row_file_bytes;
  request.on_progress = options.on_planning;
  request.resized = [&session](const choose::RunPlanRequest& from, const Lengths& longest,
                               int64_t global_batch) {
    const SessionSizes sizes = resized(session, longest, global_batch);
    choose::RunPlanRequest to = from;
    if (!sizes.lengths.empty()) to.lengths = sizes.lengths;
    to.global_batch = sizes.batch_rows;
    to.process_bytes = sizes.process_bytes;
    to.startup_bytes = sizes.startup_bytes;
    // Evaluation has no batch but its micro-batches.
    if (session.options.only_evaluation && from.micro_batch > 0) to.micro_batch = sizes.batch_rows;
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

choose::RunPlan planned(const Network& network, const NetworkDef& def, const RunSession& session,
                        const ResolvedSpec& resolved, int64_t micro_batch, const Backend& backend,
                        compile::Records records) {
  const SessionOptions& options = session.options;
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  choose::RunPlanRequest request = plan_request(def, session, resolved, micro_batch);
  request.records = records;
  request.changed = [&](const LeverKeys& keys) { return request_with(network, session, keys); };
  std::optional<choose::SavedPlan> saved;
  if (!options.plan_file.empty()) {
    saved = choose::read_saved_plan(options.plan_file);
    if (micro_batch > 0 && micro_batch != saved->micro_batch)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has micro-batches of " + std::to_string(saved->micro_batch) +
                      ", this run needs " + std::to_string(micro_batch));
    if (saved->micro_batch > options.batch_rows)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has micro-batches of " + std::to_string(saved->micro_batch) +
                      ", more than the " + std::to_string(options.batch_rows) + " rows of a batch",
                  "plan for batches of this size");
    request.saved = &*saved;
    request.micro_batch = saved->micro_batch;
    if (options.two_pass_clip && *options.two_pass_clip != saved->has_two_passes)
      throw Error(ErrorCode::bad_config, options.plan_file,
                  "the saved plan has two_pass_clip " +
                      std::string(saved->has_two_passes ? "true" : "false") +
                      ", this run asks for the other",
                  "omit two_pass_clip");
    request.two_pass_clip = saved->has_two_passes;
    request.packs_weights = saved->packs_weights;
  }
  choose::refuse_unused_fusion(request, backend);
  return choose::make_run_plan(request, backend);
}

}  // namespace

std::shared_ptr<const SessionPlan::Impl> make_plan(const Network& network,
                                                   const RunSession& session, int64_t micro_batch,
                                                   compile::Records records) {
  const DefaultFloatMode float_mode;
  return std::make_shared<const SessionPlan::Impl>(network, session, micro_batch, records);
}

SessionPlan plan_session(const Network& network, const RunSession& session) {
  return SessionPlan(make_plan(network, session, session.options.micro_batch_size));
}

}  // namespace snug::session

namespace snug {

SessionPlan::Impl::Impl(const Network& network, const session::RunSession& session,
                        int64_t micro_batch, compile::Records records)
    : options(session.options),
      resolved(session::resolve_checked(spec::spec_of(options))),
      name(network.name()),
      machine(session::machine_of(options)) {
  session::check_block(options.block);
  network::DescribedNetwork found = session::described(network, options);
  def = session::changed_network(std::move(found.def), resolved);
  facts = std::move(found.facts);
  const std::string unshared = network::unshared_notice(facts);
  if (!unshared.empty() && options.on_message) options.on_message(unshared);
  if (!options.only_evaluation) {
    rule = session::rule_of(resolved, def);
    const std::vector<std::string> names =
        compile::trainable_names(compile::parameter_names(def), options.freeze, def.is_frozen);
    trained.insert(names.begin(), names.end());
  }
  plan = session::planned(network, def, session, resolved, micro_batch, *machine.impl().backend,
                          records);
  if (!options.only_evaluation) identity = identity_of(true);
  plan.report.model = name;
  plan.report.precision = session::precision_text(options);
  plan.report.instruction_set = to_string(instruction_set());
}

session::NetworkIdentity SessionPlan::Impl::identity_of(bool training) const {
  return session::identity_of(
      def, {.rows = plan.micro_batch,
            .lengths = options.lengths.empty() ? Lengths() : options.lengths.back(),
            .training = training});
}

SessionPlan::SessionPlan(const Network& network, const SessionOptions& options)
    : impl_(session::make_plan(network, {.options = options}, options.micro_batch_size)) {}

const PlanReport& SessionPlan::report() const { return impl_->plan.report; }

void SessionPlan::save(const std::string& file) const {
  choose::write_saved_plan(file, impl_->plan);
}

void SessionPlan::save_problem(const std::string& file) const {
  io::replace_file(file, solve::remat_problem_json(impl_->plan.train.back().lowered.problem));
}

void SessionPlan::save_schedule(const std::string& file) const {
  const choose::PlannedProgram& program = impl_->plan.train.back();
  std::vector<plan::OpId> schedule;
  for (const plan::Step& step : program.plan.steps) schedule.push_back(step.op);
  io::replace_file(file, solve::remat_schedule_json(program.lowered.problem, schedule));
}

double SessionPlan::summands(const Lengths& length) const {
  double sum = 0;
  for (const choose::PlannedProgram& program : impl_->plan.train) {
    if (program.length != length) continue;
    for (const NodeId id : program.graph.nodes.ids()) {
      const NodeSpec spec = spec_of(program.graph, id);
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

std::vector<int64_t> splits_of(int64_t batch_rows) {
  if (batch_rows < 1 || batch_rows > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::bad_config, "batch_rows",
                std::to_string(batch_rows) + " rows are no batch",
                "give a whole number from 1 to 2147483647");
  return choose::micro_batches(batch_rows);
}

std::vector<TensorInfo> tensors_of(const Network& network, const SessionOptions& options) {
  const DefaultFloatMode float_mode;
  const session::ResolvedSpec resolved = session::resolve(spec::spec_of(options));
  const compile::NetworkDef def =
      session::changed_network(session::described(network, options).def, resolved);
  const std::vector<std::string> names = compile::parameter_names(def);
  const std::vector<std::string> trained =
      compile::trainable_names(names, options.freeze, def.is_frozen);
  (void)optim::assign_groups(names, resolved.recipe.groups);
  const std::set<std::string> is_trained(trained.begin(), trained.end());
  const std::vector<compile::Weight> weights = compile::weights_of(def);
  std::set<std::string> scales;
  for (const compile::Weight& weight : weights) {
    const Value& value = weight.value;
    if (compile::is_coded_weight(value.kind, value.type.dtype))
      scales.insert(value.name + compile::kScalesSuffix);
  }
  std::vector<TensorInfo> found;
  for (const compile::Weight& weight : weights) {
    const Value& value = weight.value;
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
