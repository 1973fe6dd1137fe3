// SPDX-License-Identifier: Apache-2.0
// What a caller in C holds: networks, plans, sessions, machines, flags. Each has verbs by name.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "answer.h"
#include "options.h"
#include "snug/network.h"
#include "snug/session.h"
#include "snug/snug_session_c.h"

namespace snug::c_api {

/// One call of a verb: what goes in, and the object that comes out.
struct Request {
  Options options;
  const snug_data& data;
  std::unique_ptr<snug_object> made;
  /// Throws Error{bad_config} for options that nobody asked for, keys included.
  void check_all() const { options.check_all(); }
};

}  // namespace snug::c_api

struct snug_object {
  snug_object() = default;
  snug_object(const snug_object&) = delete;
  snug_object& operator=(const snug_object&) = delete;
  virtual ~snug_object() = default;
  /// JSON text. Throws Error{bad_config} where it has no such verb.
  virtual std::string call(const std::string& verb, snug::c_api::Request& request) = 0;
};

namespace snug::c_api {

template <class Object>
struct ObjectVerb {
  const char* name;
  std::string (*run)(Object& object, Request& request);
};

template <class Object, size_t N>
std::string run_verb(const char* kind, const ObjectVerb<Object> (&verbs)[N], Object& object,
                     const std::string& verb, Request& request) {
  for (const ObjectVerb<Object>& each : verbs) {
    if (verb == each.name) return each.run(object, request);
  }
  throw Error(ErrorCode::bad_config, verb, std::string("a ") + kind + " has no such verb");
}

using Flag = std::atomic<bool>;
struct FlagObject final : snug_object {
  std::string call(const std::string& verb, Request& request) override;
  std::shared_ptr<Flag> flag = std::make_shared<Flag>(false);
};

struct MachineObject final : snug_object {
  explicit MachineObject(Machine opened) : machine(std::move(opened)) {}
  std::string call(const std::string& verb, Request& request) override;
  Machine machine;
};

struct NetworkObject final : snug_object {
  explicit NetworkObject(Network made) : network(std::move(made)) {}
  std::string call(const std::string& verb, Request& request) override;
  Network network;
};

/// Options of a session, with what they refer to.
struct OwnedOptions {
  SessionOptions options;
  std::shared_ptr<const Flag> cancel;
};
[[nodiscard]] OwnedOptions owned_options(Request& request);

struct PlanObject final : snug_object {
  PlanObject(SessionPlan made, std::shared_ptr<const Flag> flag)
      : cancel(std::move(flag)), plan(std::move(made)) {}
  std::string call(const std::string& verb, Request& request) override;
  std::shared_ptr<const Flag> cancel;
  SessionPlan plan;
};

struct SessionObject final : snug_object {
  SessionObject(Session opened, std::shared_ptr<const Flag> flag)
      : cancel(std::move(flag)), session(std::move(opened)) {}
  std::string call(const std::string& verb, Request& request) override;
  std::shared_ptr<const Flag> cancel;
  Session session;
  std::atomic<bool> is_used = false;
};

/// Throws Error{bad_config} where an object of another kind is given.
template <class Object>
const Object* object_of(const snug_object* given, const char* name) {
  const auto* const found = dynamic_cast<const Object*>(given);
  if (given != nullptr && found == nullptr)
    throw Error(ErrorCode::bad_config, name, "it is another kind of object");
  return found;
}

[[nodiscard]] std::string with_text(const std::string& json, const std::string& text);
[[nodiscard]] std::string report_json(const PlanReport& report, bool has_picture);
[[nodiscard]] std::string json_of(const std::vector<TensorInfo>& tensors);
[[nodiscard]] std::vector<std::string> texts_of(Options& options, const std::string& name);

}  // namespace snug::c_api
