// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/ascii.h"
#include "base/check.h"
#include "ops/elementwise/elementwise.h"
#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/optimizer_step.h"
#include "ops/optimizer/optimizers.h"
#include "ops/reduce/reduce.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

// A piece of the name between dots that is `norm` or ends in `_norm`.
bool has_norm_piece(const std::string& name) {
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string piece = name.substr(begin, end - begin);
    const std::string_view suffix = "_norm";
    const bool ends = piece.size() >= suffix.size() &&
                      piece.compare(piece.size() - suffix.size(), suffix.size(), suffix) == 0;
    if (piece == "norm" || ends) return true;
    begin = end + 1;
  }
  return false;
}

const HyperParameter* find_parameter(const Optimizer& optimizer, std::string_view name) {
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Random numbers of its own for a weight, whichever program updates it: FNV-1a of the name.
int64_t stream_of(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorCode::bad_config, "optim", what, hint);
}

// The range as text where the value lies outside of it, or does so as the f32 of a kernel.
std::string broken_range(HyperRange range, double value) {
  const auto stored = static_cast<float>(value);
  switch (range) {
    case HyperRange::share:
      return value >= 0 && stored < 1 ? "" : "[0, 1), in 32 bits too";
    case HyperRange::not_negative:
      return value >= 0 && std::isfinite(stored) ? "" : ">= 0, finite in 32 bits";
    case HyperRange::positive:
      return value > 0 && std::isfinite(stored) ? "" : "> 0, finite in 32 bits";
    case HyperRange::flag:
      return value == 0 || value == 1 ? "" : "0 or 1";
  }
  return {};
}

}  // namespace

bool decays(const std::string& parameter) {
  const std::string name = ascii::lowered(parameter);
  for (const char* part : {"bias", "layernorm", "rmsnorm"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  return !has_norm_piece(name);
}

Options make_options(std::string_view optimizer, const HyperValues& given, double weight_decay) {
  Options options{
      .optimizer = find_optimizer(optimizer), .settings = {}, .weight_decay = weight_decay};
  if (options.optimizer == nullptr) {
    std::vector<std::string> names;
    for (const Optimizer* each : optimizers()) names.push_back(*each->name);
    refuse("there is no optimizer '" + std::string(optimizer) + "'", "there are " + joined(names));
  }
  std::vector<std::string> names;
  for (const HyperParameter& each : *options.optimizer->parameters) {
    options.settings.set(each.name, each.default_value);
    names.push_back(each.name);
  }
  for (const auto& [name, value] : given) {
    const HyperParameter* parameter = find_parameter(*options.optimizer, name);
    if (parameter == nullptr) {
      refuse(std::string(optimizer) + " has no hyper-parameter '" + name + "'",
             names.empty() ? "it has none" : "it has " + joined(names));
    }
    const std::string range = broken_range(parameter->range, value);
    if (!range.empty())
      refuse(name + " of " + std::string(optimizer) + " is out of range", "allowed: " + range);
    options.settings.set(name, value);
  }
  if (const std::string why = (*options.optimizer->refusal)(options.settings); !why.empty())
    refuse(why);
  return options;
}

std::vector<NamedState> states_of(const Options& options, const std::string& parameter,
                                  const Shape& shape, std::optional<StateCodec> codec) {
  std::vector<NamedState> states;
  for (const StateSpec& each : (*options.optimizer->states)(options.settings, shape)) {
    const std::string name = each.role + "." + parameter;
    if (!codec) {
      states.push_back({name, {DType::f32, each.shape}});
      continue;
    }
    states.push_back({name + kCodesSuffix, {DType::u8, each.shape}});
    states.push_back(
        {name + kScalesSuffix, {DType::f32, {state_blocks(element_count(each.shape))}}});
  }
  return states;
}

std::vector<ValueId> append_update(GraphBuilder& builder, ValueId parameter, ValueId gradient,
                                   ValueId hyper, ValueId coefficient, const Options& options,
                                   const UpdateForm& form) {
  const std::string name = builder.graph().value(parameter).name;
  const TensorType type = builder.type(parameter);
  if (builder.graph().value(parameter).kind != ValueKind::parameter) {
    throw Error(ErrorCode::invalid_graph, name, "only a parameter can be updated");
  }
  std::vector<ValueId> inputs = {parameter, gradient};
  for (const NamedState& state : states_of(options, name, type.shape, form.codec))
    inputs.push_back(builder.state(state.name, state.type));
  inputs.push_back(form.rng);
  inputs.push_back(hyper);
  inputs.push_back(coefficient);
  inputs.push_back(kNone);                       // the gradient is whole
  const bool is_vector = type.shape.size() < 2;  // a bias or a norm's scale, whatever its name
  const bool is_plain = is_vector || !decays(name);
  StepNode step = (*options.optimizer->step)(
      options.settings,
      {.shape = type.shape,
       .weight_decay = form.weight_decay.value_or(is_plain ? 0 : options.weight_decay),
       .is_adapted = !is_plain});
  if (form.codec) {
    step.op = coded_step(step.op);
    step.attrs.set(kCodecAttr, std::string(to_string(*form.codec)));
  }
  if (type.dtype != DType::f32) step.attrs.set(kStreamAttr, stream_of(name));
  const PhaseGuard phase(builder, Phase::update);
  return builder.op(step.op, inputs, step.attrs);
}

FedValues fed_values(const Options& options, double learning_rate, int64_t step) {
  SNUG_CHECK(step >= 1, "updates are counted from 1");
  return (*options.optimizer->fed)(options.settings, learning_rate, step);
}

ValueId append_squares(GraphBuilder& builder, ValueId gradient, ValueId scale) {
  const PhaseGuard phase(builder, Phase::update);
  return scale == kNone ? sum_squares(builder, gradient)
                        : gradient_squares(builder, gradient, scale);
}

Clip append_clip(GraphBuilder& builder, std::span<const ValueId> squares, double max_norm,
                 ValueId scale) {
  if (squares.empty())
    throw Error(ErrorCode::invalid_graph, "loss", "no weight that is trained has a gradient",
                "let the loss depend on one");
  const PhaseGuard phase(builder, Phase::update);
  const GlobalNormOutputs out = global_norm(builder, squares, max_norm);
  return {out.norm, scale == kNone ? out.coefficient : mul(builder, out.coefficient, scale)};
}

}  // namespace snug::optim
