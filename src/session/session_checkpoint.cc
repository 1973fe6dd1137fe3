// SPDX-License-Identifier: Apache-2.0
// Saving a session and going on with it. session.json holds the counts, the micro-batch, every
// option that decides the result (spec::Field::is_saved) and what the network is made of.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "io/atomic_folder.h"
#include "io/checkpoint_tensors.h"
#include "io/json_file.h"
#include "session/session_impl.h"
#include "snug/error.h"
#include "snug/instruction_set.h"
#include "spec/table.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormat = 1;
constexpr int64_t kMostBytes = 1 << 20;
constexpr const char* kStateFile = "session.json";

// What decides the result, by the name of its option; numbers so that they read back exactly.
Json deciding_options(const TrainSpec& spec) {
  Json options = Json::object();
  for (const spec::Field& field : spec::fields()) {
    if (field.is_saved()) options[field.name] = field.json(spec);
  }
  return options;
}

struct Saved {
  int64_t micro_batch = 0;
  UpdateCounts counts;
  std::optional<LossScale> loss_scale = std::nullopt;  // where it is dynamic
  std::optional<InstructionSet> instruction_set = std::nullopt;
  DrawNumbering draw_numbering = DrawNumbering::building;  // before it was said
  // None: before it was said.
  std::optional<session::NetworkIdentity> identity = std::nullopt;
  std::optional<session::NetworkIdentity> evaluation_identity = std::nullopt;
};

constexpr const char* kByOperands = "operands";
constexpr const char* kByBuilding = "building";

DrawNumbering numbering_of(const io::JsonValue& state) {
  if (!state.has("draw_numbering")) return DrawNumbering::building;
  const std::string name = state.get_string("draw_numbering");
  if (name != kByOperands && name != kByBuilding)
    state.at("draw_numbering").fail("is '" + name + "', neither operands nor building");
  return name == kByOperands ? DrawNumbering::operands : DrawNumbering::building;
}

session::NetworkIdentity identity_in(const io::JsonValue& state) {
  session::NetworkIdentity found{.ops = {}, .sha256 = state.get_string("sha256")};
  const io::JsonValue ops = state.at("ops");
  for (const std::string& name : ops.keys()) found.ops[name] = ops.at(name).as_int(1);
  return found;
}

Json json_of(const session::NetworkIdentity& identity) {
  return {{"sha256", identity.sha256}, {"ops", Json(identity.ops)}};
}

void check_network(const session::NetworkIdentity& then, const session::NetworkIdentity& now) {
  const std::string difference = session::difference(then, now);
  if (difference.empty()) return;
  throw Error(
      ErrorCode::bad_config, "network",
      "it is not the network that the session was saved with: " + difference,
      "resume with the network that was saved; to train this one from those weights, open a "
      "session and write them");
}

void check_options(const io::JsonValue& then, const TrainSpec& now) {
  std::set<std::string> unknown;
  for (const std::string& name : then.keys()) unknown.insert(name);
  for (const spec::Field& field : spec::fields()) {
    if (!field.is_saved()) continue;
    unknown.erase(field.name);
    // An option that came later had its default then.
    const std::string before =
        then.has(field.name) ? then.at(field.name).dump() : field.json(TrainSpec()).dump();
    const std::string value = field.json(now).dump();
    if (before == value) continue;
    throw Error(ErrorCode::bad_config, field.name,
                "the session began with " + before + ", not " + value,
                "give what it began with: anything else would be another result");
  }
  if (!unknown.empty())
    then.fail("has '" + *unknown.begin() + "', which is no option of this version of Snug");
}

Saved read_state(const std::string& path, const std::string& network,
                 const SessionOptions& options) {
  const io::JsonValue state = io::load_json(path, kMostBytes);
  (void)state.at("format").as_int(kFormat, kFormat);
  if (state.get_string("network") != network)
    throw Error(
        ErrorCode::bad_config, "network",
        "the session was of '" + state.get_string("network") + "', not of '" + network + "'",
        "resume with the network that was saved");
  check_options(state.at("options"), spec::spec_of(options));
  Saved saved{.micro_batch = state.at("micro_batch").as_int(1, options.batch_rows),
              .counts = {.drawn = state.at("updates").as_int(0),
                         .schedule = state.at("schedule_step").as_int(0),
                         .optimizer = state.at("optimizer_step").as_int(0)}};
  const UpdateCounts& counts = saved.counts;
  if (counts.schedule > counts.drawn || counts.optimizer > counts.drawn)
    state.fail("has counts of updates that contradict each other");
  if (state.has("loss_scale")) {
    const io::JsonValue scale = state.at("loss_scale");
    saved.loss_scale = {.value = scale.at("value").as_double(),
                        .clean_updates = scale.at("clean_updates").as_int(0),
                        .overflows = scale.at("overflows").as_int(0)};
  }
  saved.draw_numbering = numbering_of(state);
  if (state.has("identity")) saved.identity = identity_in(state.at("identity"));
  if (state.has("evaluation_identity"))
    saved.evaluation_identity = identity_in(state.at("evaluation_identity"));
  if (state.has("instruction_set")) {
    const std::string name = state.get_string("instruction_set");
    saved.instruction_set = find_instruction_set(name);
    if (!saved.instruction_set)
      state.at("instruction_set").fail("is '" + name + "', which is no instruction set");
  }
  return saved;
}

// `all` are the session's, and are referred to.
std::vector<io::TensorToWrite> stored(const Session& session, const std::vector<TensorInfo>& all,
                                      bool is_model) {
  std::vector<io::TensorToWrite> tensors;
  for (const TensorInfo& tensor : all) {
    if (tensor.is_weight() != is_model) continue;
    if (tensor.dtype == DType::bf16x8) {  // which files do not have
      tensors.push_back(io::tensor_of_rows(
          tensor.name, tensor.shape,
          [&session, name = tensor.name](auto row, auto to) { session.read_rows(name, row, to); }));
      continue;
    }
    tensors.push_back(io::tensor_of(
        tensor.name, {tensor.dtype, tensor.shape},
        [&session, &name = tensor.name](const auto& put) { session.read_bytes(name, put); }));
  }
  return tensors;
}

void load(const std::string& path, bool is_model, Session& session) {
  const io::SafetensorsFile file(path);
  size_t wanted = 0;
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_weight() != is_model) continue;
    ++wanted;
    const io::StoredTensor* found = file.find(tensor.name);
    if (tensor.dtype == DType::bf16x8 && found != nullptr && found->shape == tensor.shape) {
      io::for_rows(file, *found, [&](int64_t row, std::span<const float> values) {
        session.write_rows(tensor.name, row, values);
      });
      continue;
    }
    io::read_exactly(file, found, tensor.name, {tensor.dtype, tensor.shape},
                     [&](const io::FillBytes& fill) { session.write_bytes(tensor.name, fill); });
  }
  if (file.tensors().size() != wanted)
    throw Error(ErrorCode::bad_data, path,
                "it has " + std::to_string(file.tensors().size()) + " tensors, the session " +
                    std::to_string(wanted));
}

}  // namespace

void Session::save(const std::string& folder) {
  Impl& it = *impl_;
  it.check_whole();
  it.engine->check_memory();
  if (const std::string bad = find_not_finite(); !bad.empty())
    throw Error(ErrorCode::numeric, folder, "nothing was saved: " + bad,
                "go back to what you saved before");
  const std::vector<TensorInfo> all = tensors();
  const auto weights = stored(*this, all, true);
  const auto states = stored(*this, all, false);
  io::AtomicFolder target(folder, {.expected_bytes = io::safetensors_file_bytes(weights) +
                                                     io::safetensors_file_bytes(states),
                                   .on_step = {}});
  const auto write = [&target](const char* name, const auto& tensors) {
    target.record(name, io::write_safetensors(target.file(name), tensors));
  };
  write("model.safetensors", weights);
  write("optimizer.safetensors", states);
  Json state = {
      {"format", kFormat},
      {"network", it.planned->name},
      {"identity", json_of(it.planned->identity)},
      {"evaluation_identity", json_of(it.planned->identity_of(false))},
      {"updates", it.counts.drawn},
      {"schedule_step", it.counts.schedule},
      {"optimizer_step", it.counts.optimizer},
      {"micro_batch", it.planned->plan.micro_batch},
      {"instruction_set", it.planned->plan.report.instruction_set},
      {"draw_numbering",
       it.planned->options.draw_numbering == DrawNumbering::operands ? kByOperands : kByBuilding},
      {"options", deciding_options(spec::spec_of(it.planned->options))}};
  if (has_dynamic_loss_scale())
    state["loss_scale"] = {{"value", it.loss_scale.value},
                           {"clean_updates", it.loss_scale.clean_updates},
                           {"overflows", it.loss_scale.overflows}};
  target.write(kStateFile, state.dump(1) + "\n");
  target.commit();
}

Session Session::resume(const Network& network, const std::string& folder,
                        const SessionOptions& options) {
  if (!io::recover_folder(folder))
    throw Error(ErrorCode::bad_data, folder, "there is no complete saved session",
                "give the folder that save() wrote");
  for (const char* name : {"model.safetensors", "optimizer.safetensors", kStateFile})
    io::check_file_of_folder(folder, name);
  const Saved saved = read_state(folder + "/" + kStateFile, network.name(), options);
  if (options.micro_batch_size != 0 && options.micro_batch_size != saved.micro_batch)
    throw Error(ErrorCode::bad_config, "micro_batch_size",
                "the session began with " + std::to_string(saved.micro_batch) + ", not " +
                    std::to_string(options.micro_batch_size),
                "omit it");
  SessionOptions own = options;
  own.has_initial_values = false;
  own.draw_numbering = saved.draw_numbering;
  Session session(Impl::open(session::make_plan(network, {.options = own}, saved.micro_batch)));
  const SessionPlan::Impl& its = *session.impl_->planned;
  if (own.only_evaluation && saved.evaluation_identity)
    check_network(*saved.evaluation_identity, its.identity_of(false));
  if (!own.only_evaluation && saved.identity) check_network(*saved.identity, its.identity);
  load(folder + "/model.safetensors", true, session);
  if (!own.only_evaluation) load(folder + "/optimizer.safetensors", false, session);
  session.require_finite(folder);
  session.set_counts(saved.counts);
  if (saved.loss_scale && !own.only_evaluation) session.set_loss_scale(*saved.loss_scale);
  const std::string notice = instruction_set_notice(saved.instruction_set);
  if (!notice.empty() && options.on_message) options.on_message(notice);
  return session;
}

}  // namespace snug
