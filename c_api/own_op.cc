// SPDX-License-Identifier: Apache-2.0
// An op of the caller's: its definition in JSON, its kernel and its answers by callbacks.
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "build_call.h"
#include "object.h"
#include "snug/custom_op.h"

namespace snug::c_api {
namespace {

struct Reply {
  std::string text;
};

struct Callbacks {
  snug_kernel kernel = nullptr;
  snug_ask ask = nullptr;
  void* context = nullptr;
};

Json json_of(const Attrs& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes.items())
    std::visit([&, &key = name](const auto& each) { json[key] = each; }, value);
  return json;
}

Json question_of(std::span<const TensorType> inputs, const Attrs& attributes) {
  Json types = Json::array();
  for (const TensorType& type : inputs) types.push_back(c_api::json_of(type));
  return {{"inputs", types}, {"attributes", json_of(attributes)}};
}

Json answer_of(const std::string& op, const Callbacks& callbacks, const char* what,
               const Json& question, snug_builder* builder = nullptr) {
  Reply reply;
  const int64_t answer =
      callbacks.ask(callbacks.context, what, dumped(question).c_str(), builder, &reply);
  if (builder != nullptr) builder->check(answer);
  if (answer != 0) throw CallbackFailed(answer);
  return parsed(op + "." + what, reply.text);
}

double number_answer(const std::string& op, const Callbacks& callbacks, const char* what,
                     std::span<const TensorType> inputs, const Attrs& attributes) {
  const Json answer = answer_of(op, callbacks, what, question_of(inputs, attributes));
  if (!answer.is_number())
    throw Error(ErrorCode::bad_config, op, std::string(what) + " is " + dumped(answer),
                "give a number");
  return answer.get<double>();
}

std::vector<Tensor> gradient_of(const std::string& op, const Callbacks& callbacks,
                                const GradientCall& call) {
  snug_builder builder(call.builder);
  const auto numbers = [&](std::span<const Tensor> tensors) {
    Json list = Json::array();
    for (const Tensor& tensor : tensors)
      list.push_back(tensor ? builder.number_of(tensor) : int32_t{-1});
    return list;
  };
  Json question = {{"inputs", numbers(call.inputs)},
                   {"outputs", numbers(call.outputs)},
                   {"gradients", numbers(call.gradients)},
                   {"attributes", json_of(call.attributes)}};
  const Json answer = answer_of(op, callbacks, "gradient", question, &builder);
  std::vector<Tensor> found;
  for (const Json& each : answer) {
    if (!each.is_number_integer())
      throw Error(ErrorCode::invalid_graph, op, "its gradient gives " + dumped(answer),
                  "give numbers of tensors");
    found.push_back(builder.tensor(each.get<int64_t>()));
  }
  return found;
}

void add_dims(std::span<const TensorType> types, std::vector<int64_t>& dims) {
  for (const TensorType& type : types) {
    dims.push_back(static_cast<int64_t>(type.dtype));
    dims.push_back(static_cast<int64_t>(type.shape.size()));
    dims.insert(dims.end(), type.shape.begin(), type.shape.end());
  }
}

double number_of(const AttrValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

void run(const Callbacks& callbacks, const std::vector<std::string>& attributes,
         const OpCall& call) {
  std::vector<int64_t> dims;
  add_dims(call.input_types, dims);
  add_dims(call.output_types, dims);
  std::vector<double> numbers;
  for (const std::string& name : attributes)
    numbers.push_back(number_of(*call.attributes.find(name)));
  std::vector<const void*> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<void*> outputs(call.outputs.begin(), call.outputs.end());
  const int64_t answer = callbacks.kernel(callbacks.context, inputs.data(), outputs.data(),
                                          dims.data(), numbers.data(), call.scratch);
  if (answer == 0) return;
  fail_later(answer);
  throw CallbackFailed(answer);
}

class Definition {
 public:
  explicit Definition(const char* text)
      : json_(text == nullptr ? Json() : parsed("definition", text)) {
    if (!json_.is_object())
      throw Error(ErrorCode::bad_config, "definition", "it is no JSON object");
    const std::set<std::string> known = {
        "name",         "inputs",       "outputs",           "attributes",
        "couples_rows", "has_gradient", "has_scratch_bytes", "has_flops"};
    for (const auto& [key, value] : json_.items()) {
      if (known.count(key) == 0)
        throw Error(ErrorCode::bad_config, "definition", "there is no '" + key + "'");
    }
  }
  [[nodiscard]] std::string name() const {
    if (!json_.contains("name") || !json_["name"].is_string())
      throw Error(ErrorCode::bad_config, "definition", "the op has no name");
    return json_["name"].get<std::string>();
  }
  [[nodiscard]] std::vector<std::string> names(const char* key) const {
    std::vector<std::string> found;
    if (!json_.contains(key)) return found;
    for (const Json& each : json_[key]) {
      if (!each.is_string())
        throw Error(ErrorCode::bad_config, name(), std::string(key) + " are no names");
      found.push_back(each.get<std::string>());
    }
    return found;
  }
  [[nodiscard]] bool is(const char* key) const {
    return json_.contains(key) && json_[key].is_boolean() && json_[key].get<bool>();
  }
  [[nodiscard]] std::vector<std::pair<std::string, AttrValue>> attributes() const {
    std::vector<std::pair<std::string, AttrValue>> found;
    if (!json_.contains("attributes")) return found;
    for (const auto& [key, value] : json_["attributes"].items()) {
      if (!value.is_number() && !value.is_boolean())
        throw Error(ErrorCode::bad_config, name(),
                    "its attribute '" + key + "' is " + dumped(value),
                    "give a number or a truth value");
      found.emplace_back(key, attribute_of(name(), key, value));
    }
    return found;
  }

 private:
  Json json_;
};

std::shared_ptr<const CustomOp> op_of(const char* definition, const Callbacks& callbacks) {
  const Definition said(definition);
  CustomOp op;
  op.name = said.name();
  op.inputs = said.names("inputs");
  op.outputs = said.names("outputs");
  op.attributes = said.attributes();
  op.couples_rows = said.is("couples_rows");
  if (callbacks.kernel == nullptr || callbacks.ask == nullptr)
    throw Error(ErrorCode::bad_config, op.name, "it has no kernel, or no answers");
  const std::string name = op.name;
  op.infer = [=](std::span<const TensorType> inputs, const Attrs& attributes) {
    std::vector<TensorType> types;
    for (const Json& each : answer_of(name, callbacks, "infer", question_of(inputs, attributes)))
      types.push_back(type_of(name, each));
    return types;
  };
  std::vector<std::string> names;
  for (const auto& [attribute, value] : op.attributes) names.push_back(attribute);
  op.run = [=](const OpCall& call) { run(callbacks, names, call); };
  if (said.is("has_gradient"))
    op.gradient = [=](const GradientCall& call) { return gradient_of(name, callbacks, call); };
  if (said.is("has_scratch_bytes"))
    op.scratch_bytes = [=](std::span<const TensorType> inputs, const Attrs& attributes) {
      return static_cast<int64_t>(
          number_answer(name, callbacks, "scratch_bytes", inputs, attributes));
    };
  if (said.is("has_flops"))
    op.flops = [=](std::span<const TensorType> inputs, const Attrs& attributes) {
      return number_answer(name, callbacks, "flops", inputs, attributes);
    };
  return std::make_shared<const CustomOp>(std::move(op));
}

}  // namespace
}  // namespace snug::c_api

extern "C" {

void snug_reply(void* reply, const char* json) {
  static_cast<snug::c_api::Reply*>(reply)->text = json;
}

char* snug_network_add(snug_object* network, const char* definition, snug_kernel kernel,
                       snug_ask ask, void* context) {
  using namespace snug;
  return c_api::answered([&]() -> std::string {
    auto* const to = dynamic_cast<c_api::NetworkObject*>(network);
    if (to == nullptr) throw Error(ErrorCode::bad_config, "network", "it is no network");
    to->network.add(c_api::op_of(definition, {kernel, ask, context}));
    return "null";
  });
}

}  // extern "C"
