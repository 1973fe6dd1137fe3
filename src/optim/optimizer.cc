// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "ops/optimizer/optimizer.h"
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

}  // namespace

bool decays(const std::string& parameter) {
  std::string name = parameter;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* part : {"bias", "layernorm", "rmsnorm"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  return !has_norm_piece(name);
}

std::vector<std::string> state_names(const Options& options, const std::string& parameter) {
  if (options.algorithm == Algorithm::adamw) return {"m." + parameter, "v." + parameter};
  if (options.momentum > 0) return {"momentum." + parameter};
  return {};
}

std::vector<ValueId> append_update(GraphBuilder& builder, ValueId parameter, ValueId gradient,
                                   ValueId hyper, ValueId coefficient, const Options& options) {
  const std::string name = builder.graph().value(parameter).name;
  const TensorType type = builder.type(parameter);
  if (builder.graph().value(parameter).kind != ValueKind::parameter) {
    throw Error(ErrorCode::invalid_graph, name, "only a parameter can be updated");
  }
  std::vector<ValueId> states;
  for (const std::string& state : state_names(options, name))
    states.push_back(builder.state(state, type));
  const bool is_vector = type.shape.size() < 2;  // a bias or a norm's scale, whatever its name
  const double decay = decays(name) && !is_vector ? options.weight_decay : 0;
  const PhaseGuard phase(builder, Phase::update);
  if (options.algorithm == Algorithm::adamw) {
    const AdamWOutputs out =
        adamw(builder, parameter, gradient, states[0], states[1], hyper, coefficient,
              {.beta1 = options.beta1,
               .beta2 = options.beta2,
               .eps = options.epsilon,
               .weight_decay = decay});
    return {out.w, out.m, out.v};
  }
  if (states.empty()) return {sgd(builder, parameter, gradient, hyper, coefficient, decay)};
  const SgdMomentumOutputs out = sgd_momentum(
      builder, parameter, gradient, states[0], hyper, coefficient,
      {.momentum = options.momentum, .nesterov = options.nesterov, .weight_decay = decay});
  return {out.w, out.buffer};
}

std::array<double, 4> hyper_values(const Options& options, double learning_rate, int64_t step) {
  SNUG_CHECK(step >= 1, "updates are counted from 1");
  if (options.algorithm != Algorithm::adamw) return {learning_rate, 0, 0, 0};
  const auto t = static_cast<double>(step);
  return {learning_rate, 1 - std::pow(options.beta1, t), 1 - std::pow(options.beta2, t), 0};
}

Clip append_clip(GraphBuilder& builder, std::span<const ValueId> gradients, double max_norm) {
  if (gradients.empty())
    throw Error(ErrorCode::invalid_graph, "append_clip", "there is no gradient to measure");
  const PhaseGuard phase(builder, Phase::update);
  std::vector<ValueId> sums;
  for (ValueId gradient : gradients) sums.push_back(sum_squares(builder, gradient));
  const GlobalNormOutputs out = global_norm(builder, sums, max_norm);
  return {out.norm, out.coefficient};
}

}  // namespace snug::optim
