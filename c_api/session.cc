// SPDX-License-Identifier: Apache-2.0
// Plans and sessions in C.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "object.h"
#include "rows.h"
#include "snug/models.h"
#include "verbs.h"

namespace snug::c_api {
namespace {

// Numbers that are not finite are told apart.
Json exact(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string text_option(Request& request, const char* name) {
  std::string text = request.options.required(name);
  request.check_all();
  return text;
}

std::string summands_verb(PlanObject& object, Request& request) {
  const std::string length = request.options.option("length");
  request.check_all();
  return dumped(Json(object.plan.summands(
      length.empty() ? Lengths() : lengths_of("length", parsed("length", length)))));
}

std::string open_verb(PlanObject& object, Request& request) {
  request.check_all();
  request.made = std::make_unique<SessionObject>(Session(object.plan), object.cancel);
  return "null";
}

constexpr ObjectVerb<PlanObject> kPlanVerbs[] = {
    {"report",
     [](PlanObject& o, Request& r) {
       const bool has_picture = r.options.flag("html");
       r.check_all();
       return report_json(o.plan.report(), has_picture);
     }},
    {"save", [](PlanObject& o,
                Request& r) { return o.plan.save(text_option(r, "file")), std::string("null"); }},
    {"save_problem",
     [](PlanObject& o, Request& r) {
       return o.plan.save_problem(text_option(r, "file")), std::string("null");
     }},
    {"save_schedule",
     [](PlanObject& o, Request& r) {
       return o.plan.save_schedule(text_option(r, "file")), std::string("null");
     }},
    {"summands", summands_verb},
    {"open", open_verb},
};

std::string about_verb(SessionObject& object, Request& request) {
  request.check_all();
  const Session& session = object.session;
  const UpdateCounts& counts = session.counts();
  const LossScale& scale = session.loss_scale();
  return dumped(
      {{"updates", session.updates()},
       {"counts",
        {{"drawn", counts.drawn}, {"schedule", counts.schedule}, {"optimizer", counts.optimizer}}},
       {"loss_scale",
        {{"value", scale.value},
         {"clean_updates", scale.clean_updates},
         {"overflows", scale.overflows}}},
       {"has_dynamic_loss_scale", session.has_dynamic_loss_scale()}});
}

std::string set_counts_verb(SessionObject& object, Request& request) {
  const auto count = [&](const char* name) {
    return whole_number(name, request.options.required(name));
  };
  const UpdateCounts counts = {
      .drawn = count("drawn"), .schedule = count("schedule"), .optimizer = count("optimizer")};
  request.check_all();
  object.session.set_counts(counts);
  return "null";
}

std::string set_loss_scale_verb(SessionObject& object, Request& request) {
  Options& options = request.options;
  const LossScale scale = {
      .value = real_number("value", options.required("value")),
      .clean_updates = whole_number("clean_updates", options.required("clean_updates")),
      .overflows = whole_number("overflows", options.required("overflows"))};
  request.check_all();
  object.session.set_loss_scale(scale);
  return "null";
}

std::string step_verb(SessionObject& object, Request& request) {
  const std::unique_ptr<RowSource> rows = rows_of(request);
  StepOptions options;
  if (const std::string rate = request.options.option("learning_rate"); !rate.empty())
    options.learning_rate = real_number("learning_rate", rate);
  options.is_skipped = request.options.flag("is_skipped");
  request.check_all();
  const StepResult result = object.session.step(*rows, options);
  return dumped({{"update", result.update},
                 {"loss", exact(result.loss)},
                 {"grad_norm", exact(result.grad_norm)},
                 {"learning_rate", exact(result.learning_rate)},
                 {"loss_scale", exact(result.loss_scale)},
                 {"is_skipped", result.is_skipped}});
}

std::string gradients_verb(SessionObject& object, Request& request) {
  const std::unique_ptr<RowSource> rows = rows_of(request);
  request.check_all();
  const GradientResult result = object.session.gradients(*rows);
  std::map<std::string, Shape> shapes;
  for (const TensorInfo& tensor : object.session.tensors()) shapes[tensor.name] = tensor.shape;
  for (const auto& [name, values] : result.of) give(request.data, name, shapes.at(name), values);
  return dumped({{"loss", exact(result.loss)}});
}

std::string evaluate_verb(SessionObject& object, Request& request) {
  const std::unique_ptr<RowSource> rows = rows_of(request);
  request.check_all();
  const Evaluation found = object.session.evaluate(*rows, sink_of(request.data));
  return dumped({{"rows", found.rows}, {"loss", exact(found.loss)}});
}

std::string predict_verb(SessionObject& object, Request& request) {
  const std::unique_ptr<RowSource> rows = rows_of(request);
  request.check_all();
  const OutputSink sink = sink_of(request.data);
  if (!sink) throw Error(ErrorCode::bad_config, "sink", "nobody takes what is given");
  object.session.predict(*rows, sink);
  return "null";
}

// The tensor that the request's array is of, and the row from which on; nothing: all of it.
struct Part {
  std::string name;
  std::optional<int64_t> first_row;
  std::span<float> values;
};
Part part_of(Request& request) {
  const std::span<float> values = values_of(request.data);
  Part part{.name = request.data.arrays[0].name, .first_row = {}, .values = values};
  if (const std::string row = request.options.option("first_row"); !row.empty())
    part.first_row = whole_number("first_row", row);
  request.check_all();
  return part;
}

std::string read_verb(SessionObject& object, Request& request) {
  const Part part = part_of(request);
  if (part.first_row)
    object.session.read_rows(part.name, *part.first_row, part.values);
  else
    object.session.read(part.name, part.values);
  return "null";
}

std::string write_verb(SessionObject& object, Request& request) {
  const Part part = part_of(request);
  if (part.first_row)
    object.session.write_rows(part.name, *part.first_row, part.values);
  else
    object.session.write(part.name, part.values);
  return "null";
}

std::string place_of(const Session& session, const std::string& name,
                     std::span<const std::byte> bytes) {
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.name == name)
      return dumped({{"address", reinterpret_cast<uintptr_t>(bytes.data())},
                     {"bytes", bytes.size()},
                     {"dtype", to_string(tensor.dtype)},
                     {"shape", std::vector<int64_t>(tensor.shape)}});
  }
  throw Error(ErrorCode::internal, name, "a tensor with a place is not listed");
}

std::string view_verb(SessionObject& object, Request& request) {
  const std::string name = text_option(request, "name");
  return place_of(object.session, name, object.session.view_bytes(name));
}

std::string edit_verb(SessionObject& object, Request& request) {
  const std::string name = text_option(request, "name");
  return place_of(object.session, name, object.session.edit_bytes(name));
}

std::string load_weights_verb(SessionObject& object, Request& request) {
  RunConfig config = RunConfig::load({}, request.options.keys());
  request.options.check_options();
  load_weights(config, object.session);
  return "null";
}

constexpr ObjectVerb<SessionObject> kSessionVerbs[] = {
    {"step", step_verb},
    {"plan",
     [](SessionObject& o, Request& r) {
       const bool has_picture = r.options.flag("html");
       r.check_all();
       return report_json(o.session.plan(), has_picture);
     }},
    {"about", about_verb},
    {"has_input",
     [](SessionObject& o, Request& r) {
       return dumped(Json(o.session.has_input(text_option(r, "input"))));
     }},
    {"set_counts", set_counts_verb},
    {"set_loss_scale", set_loss_scale_verb},
    {"gradients", gradients_verb},
    {"evaluate", evaluate_verb},
    {"predict", predict_verb},
    {"tensors",
     [](SessionObject& o, Request& r) { return r.check_all(), json_of(o.session.tensors()); }},
    {"read", read_verb},
    {"write", write_verb},
    {"view", view_verb},
    {"edit", edit_verb},
    {"initialize",
     [](SessionObject& o, Request& r) {
       return o.session.initialize(text_option(r, "name")), std::string("null");
     }},
    {"find_not_finite",
     [](SessionObject& o, Request& r) {
       return r.check_all(), dumped(Json(o.session.find_not_finite()));
     }},
    {"require_finite",
     [](SessionObject& o, Request& r) {
       return o.session.require_finite(text_option(r, "where")), std::string("null");
     }},
    {"load_weights", load_weights_verb},
    {"save",
     [](SessionObject& o, Request& r) {
       return o.session.save(text_option(r, "folder")), std::string("null");
     }},
    {"measured_arena_bytes",
     [](SessionObject& o, Request& r) {
       return r.check_all(), dumped(Json(o.session.measured_arena_bytes()));
     }},
    {"set_poisoning",
     [](SessionObject& o, Request& r) {
       const bool is_on = r.options.flag("is_on");
       r.check_all();
       return o.session.set_poisoning(is_on), std::string("null");
     }},
};

// One call at a time; a second one is told so.
class Use {
 public:
  explicit Use(std::atomic<bool>& is_used) : is_used_(is_used) {
    if (is_used_.exchange(true))
      throw Error(
          ErrorCode::bad_config, "session",
          "it is called while it computes: from its own rows or results, or from two threads",
          "keep what a callback is given, and call when the session has returned");
  }
  ~Use() { is_used_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>& is_used_;
};

}  // namespace

std::string PlanObject::call(const std::string& verb, Request& request) {
  return run_verb("plan", kPlanVerbs, *this, verb, request);
}

std::string SessionObject::call(const std::string& verb, Request& request) {
  const Use use(is_used);
  return run_verb("session", kSessionVerbs, *this, verb, request);
}

}  // namespace snug::c_api
