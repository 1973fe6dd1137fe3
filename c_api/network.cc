// SPDX-License-Identifier: Apache-2.0
// A network in C: the function that builds it, and what may be asked of it and SessionOptions.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "builder.h"
#include "object.h"
#include "snug/explain.h"
#include "snug/idioms.h"
#include "snug/models.h"
#include "verbs.h"

namespace snug::c_api {
namespace {

std::string plan_verb(NetworkObject& object, Request& request) {
  const bool has_picture = request.options.flag("html");
  request.options.check_options();
  OwnedOptions owned = owned_options(request);
  owned.options.wants_picture = has_picture;
  return report_json(plan_network(object.network, owned.options), has_picture);
}

// `plan` is plan_levers or plan_allowed_levers.
template <std::vector<LeverPlan> (*plan)(const Network&, const SessionOptions&,
                                         const std::vector<std::string>&)>
std::string levers_verb(NetworkObject& object, Request& request) {
  const std::vector<std::string> allow = texts_of(request.options, "allow");
  request.options.check_options();
  const OwnedOptions owned = owned_options(request);
  const std::vector<LeverPlan> plans = plan(object.network, owned.options, allow);
  return with_text(to_json(plans), to_text(plans, resolve_memory(owned.options.memory)));
}

std::string fastest_levers_verb(NetworkObject& object, Request& request) {
  const std::vector<std::string> allow = texts_of(request.options, "allow");
  request.options.check_options();
  Json keys = Json::object();
  for (const auto& [key, value] :
       fastest_levers(object.network, owned_options(request).options, allow))
    keys[key] = value;
  return dumped(keys);
}

std::string tensors_verb(NetworkObject& object, Request& request) {
  request.options.check_options();
  return json_of(tensors_of(object.network, owned_options(request).options));
}

std::string explain_verb(NetworkObject& object, Request& request) {
  const bool has_texts = request.options.flag("stages");
  request.options.check_options();
  const Explanation explanation =
      explain_network(object.network, owned_options(request).options, has_texts);
  return with_text(explanation.to_json(), explanation.to_text());
}

std::string plan_session_verb(NetworkObject& object, Request& request) {
  const bool has_picture = request.options.flag("html");
  request.options.check_options();
  OwnedOptions owned = owned_options(request);
  owned.options.wants_picture = has_picture;
  request.made =
      std::make_unique<PlanObject>(SessionPlan(object.network, owned.options), owned.cancel);
  return "null";
}

std::string open_verb(NetworkObject& object, Request& request) {
  const bool has_picture = request.options.flag("html");
  request.options.check_options();
  OwnedOptions owned = owned_options(request);
  owned.options.wants_picture = has_picture;
  request.made =
      std::make_unique<SessionObject>(Session(object.network, owned.options), owned.cancel);
  return "null";
}

std::string resume_verb(NetworkObject& object, Request& request) {
  const std::string folder = request.options.required("folder");
  const bool has_picture = request.options.flag("html");
  request.options.check_options();
  OwnedOptions owned = owned_options(request);
  owned.options.wants_picture = has_picture;
  request.made = std::make_unique<SessionObject>(
      Session::resume(object.network, folder, owned.options), owned.cancel);
  return "null";
}

// A word, or names in a JSON list.
Checkpoints checkpoints_of(Options& options) {
  const std::string text = options.option("checkpoints");
  if (text.empty()) return "collection";
  if (!text.starts_with("[")) return text.c_str();
  return texts_of(options, "checkpoints");
}

std::string gradients_verb(NetworkObject& object, Request& request) {
  const std::vector<std::string> xs = texts_of(request.options, "xs");
  const Checkpoints checkpoints = checkpoints_of(request.options);
  request.options.check_options();
  const OwnedOptions owned = owned_options(request);
  request.made = std::make_unique<SessionObject>(
      gradients(object.network, xs, checkpoints, owned.options), owned.cancel);
  return "null";
}

constexpr ObjectVerb<NetworkObject> kVerbs[] = {
    {"plan", plan_verb},
    {"plan_levers", levers_verb<plan_levers>},
    {"plan_allowed_levers", levers_verb<plan_allowed_levers>},
    {"fastest_levers", fastest_levers_verb},
    {"tensors_of", tensors_verb},
    {"explain", explain_verb},
    {"plan_session", plan_session_verb},
    {"open", open_verb},
    {"resume", resume_verb},
    {"gradients", gradients_verb},
};

Network network_of(const std::string& name, snug_build build, void* context) {
  return {name, [build, context](NetworkBuilder& b) {
            snug_builder builder(b);
            builder.check(build(context, &builder));
            if (!builder.scopes.empty() || !builder.parts.empty())
              throw Error(ErrorCode::invalid_graph, b.scope(),
                          "a scope or a checkpointed part is not ended");
          }};
}

}  // namespace

std::string NetworkObject::call(const std::string& verb, Request& request) {
  return run_verb("network", kVerbs, *this, verb, request);
}

}  // namespace snug::c_api

extern "C" {

char* snug_network_new(const char* name, snug_build build, void* context, snug_object** network) {
  using namespace snug;
  return c_api::answered([&]() -> std::string {
    if (name == nullptr || build == nullptr || network == nullptr)
      throw Error(ErrorCode::bad_config, "network", "it has no name, no function or no place");
    *network = new c_api::NetworkObject(c_api::network_of(name, build, context));
    return "null";
  });
}

char* snug_network_of_model(const snug_option* options, size_t count, snug_object** network) {
  using namespace snug;
  return c_api::answered([&]() -> std::string {
    if (network == nullptr) throw Error(ErrorCode::bad_config, "network", "there is no place");
    c_api::Call call(options, count, nullptr, nullptr);
    const RunConfig config = call.config();
    call.check_options();
    *network = new c_api::NetworkObject(model_network(config));
    return "null";
  });
}

}  // extern "C"
