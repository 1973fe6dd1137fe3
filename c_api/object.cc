// SPDX-License-Identifier: Apache-2.0
// snug_do: a verb of an object, or of none.
#include "object.h"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "builder.h"
#include "snug/models.h"
#include "verbs.h"

namespace snug::c_api {
namespace {

struct Nothing {};

std::string made(Request& request, std::unique_ptr<snug_object> object) {
  request.made = std::move(object);
  return "null";
}

std::string flag_verb(Nothing& /*none*/, Request& request) {
  request.check_all();
  return made(request, std::make_unique<FlagObject>());
}

std::string machine_verb(Nothing& /*none*/, Request& request) {
  const std::string threads = request.options.option("threads");
  const std::string folder = request.options.option("profile_folder");
  request.check_all();
  const OwnedOptions told = owned_options(request);
  return made(request, std::make_unique<MachineObject>(
                           Machine(threads.empty() ? 0 : whole_number("threads", threads), folder,
                                   {}, told.options.on_message)));
}

std::string splits_verb(Nothing& /*none*/, Request& request) {
  const std::string rows = request.options.required("batch_rows");
  request.check_all();
  return dumped(splits_of(whole_number("batch_rows", rows)));
}

std::string combinations_verb(Nothing& /*none*/, Request& request) {
  const Json given = parsed("lengths", request.options.required("lengths"));
  request.check_all();
  std::map<std::string, std::vector<int64_t>> lengths;
  for (const auto& [name, list] : given.items()) {
    for (const Json& each : list) lengths[name].push_back(lengths_of("lengths", each).of());
    if (list.empty()) lengths[name];
  }
  Json found = Json::array();
  for (const Lengths& each : every_combination(lengths)) found.push_back(json_of(each));
  return dumped(found);
}

constexpr ObjectVerb<Nothing> kFreeVerbs[] = {{"flag", flag_verb},
                                              {"machine", machine_verb},
                                              {"splits_of", splits_verb},
                                              {"every_combination", combinations_verb}};

constexpr ObjectVerb<FlagObject> kFlagVerbs[] = {
    {"set", [](FlagObject& o,
               Request& r) { return r.check_all(), o.flag->store(true), std::string("null"); }},
    {"clear", [](FlagObject& o,
                 Request& r) { return r.check_all(), o.flag->store(false), std::string("null"); }},
    {"is_set",
     [](FlagObject& o, Request& r) { return r.check_all(), dumped(Json(o.flag->load())); }},
};

constexpr ObjectVerb<MachineObject> kMachineVerbs[] = {
    {"about", [](MachineObject& o, Request& r) {
       r.check_all();
       return dumped({{"threads", o.machine.threads()}, {"backend", o.machine.backend()}});
     }}};

}  // namespace

std::string FlagObject::call(const std::string& verb, Request& request) {
  return run_verb("flag", kFlagVerbs, *this, verb, request);
}

std::string MachineObject::call(const std::string& verb, Request& request) {
  return run_verb("machine", kMachineVerbs, *this, verb, request);
}

OwnedOptions owned_options(Request& request) {
  const snug_data& data = request.data;
  OwnedOptions owned{.options = session_options(request.options), .cancel = nullptr};
  SessionOptions& options = owned.options;
  if (const auto* flag = object_of<FlagObject>(data.cancel, "cancel")) owned.cancel = flag->flag;
  options.cancel = owned.cancel.get();
  if (const auto* machine = object_of<MachineObject>(data.machine, "machine"))
    options.machine = machine->machine;
  options.block = {static_cast<std::byte*>(data.block), data.block_bytes};
  if (data.event == nullptr) return owned;
  const auto tell = [event = data.event, context = data.context](const char* kind,
                                                                 const std::string& json) {
    if (const int answer = event(context, kind, json.c_str()); answer != 0)
      throw CallbackFailed(answer);
  };
  options.on_planning = [tell](int64_t done, int64_t total, const char* phase) {
    tell("progress",
         dumped({{"stage", "planning"}, {"done", done}, {"total", total}, {"phase", phase}}));
  };
  options.on_message = [tell](const std::string& text) { tell("message", dumped(Json(text))); };
  return owned;
}

std::string with_text(const std::string& json, const std::string& text) {
  return "{\"json\":" + json + ",\"text\":" + dumped(Json(text)) + "}";
}

std::string report_json(const PlanReport& report, bool has_picture) {
  std::string text = with_text(report.to_json(), report.to_text());
  if (!has_picture) return text;
  text.pop_back();
  return text + ",\"html\":" + dumped(Json(report.to_html())) + "}";
}

std::string json_of(const std::vector<TensorInfo>& tensors) {
  static constexpr const char* kKinds[] = {"parameter", "buffer", "optimizer_state", "scales"};
  Json list = Json::array();
  for (const TensorInfo& tensor : tensors)
    list.push_back({{"name", tensor.name},
                    {"shape", std::vector<int64_t>(tensor.shape)},
                    {"dtype", to_string(tensor.dtype)},
                    {"kind", kKinds[static_cast<size_t>(tensor.kind)]},
                    {"is_trained", tensor.is_trained}});
  return dumped(list);
}

std::vector<std::string> texts_of(Options& options, const std::string& name) {
  std::vector<std::string> texts;
  const std::string given = options.option(name);
  if (given.empty()) return texts;
  for (const Json& each : parsed(name, given)) {
    if (!each.is_string()) throw Error(ErrorCode::bad_config, name, dumped(each) + " is no text");
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

}  // namespace snug::c_api

extern "C" {

void snug_release(snug_object* object) { delete object; }

char* snug_do(snug_object* object, const char* verb, const snug_option* options, size_t count,
              const snug_data* data, snug_object** made) {
  using namespace snug;
  if (made != nullptr) *made = nullptr;
  return c_api::answered([&] {
    if (verb == nullptr || (options == nullptr && count > 0))
      throw Error(ErrorCode::bad_config, "snug_do", "there is no verb, or there are no options");
    static constexpr snug_data kNoData = {};
    c_api::Request request{c_api::Options(options, count), data == nullptr ? kNoData : *data,
                           nullptr};
    c_api::Nothing nothing;
    std::string result = object == nullptr
                             ? c_api::run_verb("library", c_api::kFreeVerbs, nothing, verb, request)
                             : object->call(verb, request);
    if (request.made != nullptr && made == nullptr)
      throw Error(ErrorCode::bad_config, verb, "there is no place for what it makes");
    if (made != nullptr) *made = request.made.release();
    return result;
  });
}

}  // extern "C"
