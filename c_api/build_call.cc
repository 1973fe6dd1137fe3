// SPDX-License-Identifier: Apache-2.0
#include "build_call.h"

namespace snug::c_api {
namespace {

constexpr double kLargestWhole = 9007199254740992;  // that a double holds exactly

}  // namespace

BuildCall::BuildCall(snug_builder& builder, const std::string& name,
                     const std::vector<Tensor>& operands, const Json& attributes)
    : builder_(builder), name_(name), operands_(operands), attributes_(attributes) {
  if (!attributes.is_object()) fail("its attributes are no JSON object");
}

void BuildCall::fail(const std::string& what, const std::string& hint) const {
  const std::string& scope = builder_.b.scope();
  throw Error(ErrorCode::invalid_graph, scope.empty() ? name_ : scope + ": " + name_, what, hint);
}

Tensor BuildCall::x() {
  const Tensor found = optional_x();
  if (!found) fail("operand " + std::to_string(next_) + " is not given");
  return found;
}

Tensor BuildCall::optional_x() { return next_ < operands_.size() ? operands_[next_++] : Tensor(); }

std::vector<Tensor> BuildCall::all_x() {
  std::vector<Tensor> rest(operands_.begin() + static_cast<std::ptrdiff_t>(next_), operands_.end());
  next_ = operands_.size();
  return rest;
}

const Json& BuildCall::json(const char* name) {
  asked_.insert(name);
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) fail(std::string("'") + name + "' is not given");
  return *found;
}

template <class Value>
Value BuildCall::read(const char* name, bool (Json::*is_one)() const noexcept, const char* kind) {
  const Json& value = json(name);
  if (!(value.*is_one)()) fail(std::string("'") + name + "' is " + dumped(value) + ", not " + kind);
  return value.get<Value>();
}

int64_t BuildCall::integer(const char* name) {
  return read<int64_t>(name, &Json::is_number_integer, "a whole number");
}
int64_t BuildCall::integer(const char* name, int64_t otherwise) {
  return has(name) ? integer(name) : otherwise;
}
double BuildCall::number(const char* name) {
  return read<double>(name, &Json::is_number, "a number");
}
double BuildCall::number(const char* name, double otherwise) {
  return has(name) ? number(name) : otherwise;
}
bool BuildCall::flag(const char* name, bool otherwise) {
  return has(name) ? read<bool>(name, &Json::is_boolean, "true or false") : otherwise;
}
std::string BuildCall::text(const char* name) {
  return read<std::string>(name, &Json::is_string, "a text");
}
std::string BuildCall::text(const char* name, const std::string& otherwise) {
  return has(name) ? text(name) : otherwise;
}

std::vector<int64_t> BuildCall::integers(const char* name) {
  std::vector<int64_t> found;
  const Json& list = json(name);
  if (!list.is_array()) fail(std::string("'") + name + "' is " + dumped(list) + ", not a list");
  for (const Json& each : list) {
    if (!each.is_number_integer())
      fail(std::string("'") + name + "' has " + dumped(each) + ", which is no whole number");
    found.push_back(each.get<int64_t>());
  }
  return found;
}

DType BuildCall::dtype(const char* name, DType otherwise) {
  return has(name) ? dtype_named(name_, text(name)) : otherwise;
}

AttrValue attribute_of(const std::string& where, const std::string& name, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  bool is_list = value.is_array();
  for (const Json& each : value) is_list = is_list && each.is_number_integer();
  if (!is_list)
    throw Error(ErrorCode::invalid_graph, where, "the attribute '" + name + "' is " + dumped(value),
                "give a number, a truth value, a text or a list of whole numbers");
  return value.get<std::vector<int64_t>>();
}

Attrs BuildCall::attrs(const char* name) {
  Attrs attributes;
  if (!has(name)) return attributes;
  const Json& given = json(name);
  if (!given.is_object()) fail(std::string("'") + name + "' has no names");
  for (const auto& [each, value] : given.items())
    attributes.set(each, attribute_of(name_, each, value));
  return attributes;
}

// Sizes, and names of lengths.
RowShape BuildCall::row_shape(const char* name) {
  const Json& list = json(name);
  if (!list.is_array()) fail(std::string("'") + name + "' is " + dumped(list) + ", not a list");
  // A length is an axis only in front, which NetworkBuilder::input says.
  std::vector<RowShape::Axis> axes;
  for (const Json& each : list) {
    if (each.is_number_integer())
      axes.emplace_back(each.get<int64_t>());
    else if (each.is_object() && each.contains("length") && each["length"].is_string())
      axes.emplace_back(builder_.b.length(each["length"].get<std::string>()));
    else
      fail(std::string("'") + name + "' has " + dumped(each) + ", which is no size");
  }
  return RowShape(axes);
}

InitRule BuildCall::init(const char* name) {
  const Json& given = json(name);
  if (!given.is_object()) fail(std::string("'") + name + "' is no rule of initial values");
  InitRule rule;
  for (const auto& [each, value] : given.items()) {
    if (!value.is_number()) fail("the rule's '" + each + "' is " + dumped(value) + ", no number");
    const auto number = value.get<double>();
    if (each == "deviation")
      rule.deviation = number;
    else if (each == "constant")
      rule.constant = number;
    else if (each == "bound")
      rule.bound = number;
    else if (each == "cutoff")
      rule.cutoff = number;
    else if (each == "zero_row" && value.is_number_integer() && number < kLargestWhole)
      rule.zero_row = value.get<int64_t>();
    else
      fail("the rule's '" + each + "' is no part of one",
           "deviation, constant, zero_row, bound and cutoff are");
  }
  return rule;
}

Json BuildCall::put(const std::vector<Tensor>& tensors) {
  Json numbers = Json::array();
  for (const Tensor& tensor : tensors)
    numbers.push_back(tensor ? builder_.number_of(tensor) : int32_t{-1});
  return {{"tensors", numbers}};
}

void BuildCall::check_used() const {
  if (next_ < operands_.size())
    fail("it takes " + std::to_string(next_) + " operands, " + std::to_string(operands_.size()) +
         " are given");
  for (const auto& [name, value] : attributes_.items()) {
    if (asked_.count(name) == 0) fail("it has no '" + name + "'");
  }
}

}  // namespace snug::c_api
