// SPDX-License-Identifier: Apache-2.0
#include "network/filled_places.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "graph/op_def.h"

namespace snug::network {
namespace {

constexpr double kFar = 1e4;  // beside which other numbers are small
constexpr double kHalfSqrt2 = 0.70710678118654752440;

using Unary = double (*)(double);
using Binary = double (*)(double, double);

const std::map<std::string, Unary>& unary_ops() {
  static const std::map<std::string, Unary> ops = {
      {"neg", [](double x) { return -x; }},
      {"exp", [](double x) { return std::exp(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"gelu", [](double x) { return x * (1 + std::erf(x * kHalfSqrt2)) / 2; }},
      {"cast", [](double x) { return x; }},
      {"scale", [](double x) { return x; }}};  // the factor is an attribute
  return ops;
}

const std::map<std::string, Binary>& binary_ops() {
  static const std::map<std::string, Binary> ops = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"not_equal", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"less_equal", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"greater_equal", [](double a, double b) { return a >= b ? 1.0 : 0.0; }}};
  return ops;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool is_far_below(const Filled& x) { return x.is_low || (x.constant && *x.constant <= -kFar); }

Filled unary(const Node& node, const Filled& x) {
  const std::string& op = *node.op->name;
  Filled y = x.unknown();
  y.covers = x.covers;
  const double factor = op == "scale" ? node.attrs.real("factor") : 1;
  if (x.constant) y.constant = finite(factor * unary_ops().at(op)(*x.constant));
  if (!x.is_low) return y;
  if (op == "exp" || op == "sigmoid" || op == "relu") y.constant = 0;
  y.is_low = op == "cast" || (op == "scale" && factor >= 1);
  return y;
}

Filled binary(const std::string& op, const Filled& a, const Filled& b) {
  Filled y{.reaches = std::max(a.reaches, b.reaches)};
  if (a.constant && b.constant) {
    y.constant = finite(binary_ops().at(op)(*a.constant, *b.constant));
    y.covers = std::min(a.covers, b.covers);
  } else if (op == "mul" || op == "div") {
    // Where one factor is 0, the other may be anything.
    const Filled& zero = a.constant == 0.0 ? a : b;
    if (zero.constant != 0.0 || (op == "div" && &zero == &b)) return y;
    y.constant = 0;
    y.covers = zero.covers;
  } else if (op == "add" && (is_far_below(a) || is_far_below(b))) {
    y.is_low = true;
    y.covers = is_far_below(a) ? a.covers : b.covers;
  } else if (op == "sub" && (is_far_below(a) || (b.constant && *b.constant >= kFar))) {
    y.is_low = true;
    y.covers = is_far_below(a) ? a.covers : b.covers;
  }
  return y;
}

Filled chosen(const Filled& condition, const Filled& a, const Filled& b) {
  Filled y{.reaches = std::max({condition.reaches, a.reaches, b.reaches})};
  if (!condition.constant) return y;
  const Filled& taken = *condition.constant != 0 ? a : b;
  y.constant = taken.constant;
  y.is_low = is_far_below(taken);
  y.covers = std::min(condition.covers, taken.covers);
  return y;
}

}  // namespace

Filled Filled::moved(int64_t places) const {
  Filled other = *this;
  if (covers != kAll) other.covers += places;
  if (reaches != -kAll) other.reaches += places;
  return other;
}

Filled same_everywhere(std::optional<double> constant) {
  return {.constant = constant, .covers = Filled::kAll, .reaches = -Filled::kAll};
}

bool is_elementwise(const Node& node) {
  const std::string& op = *node.op->name;
  return op == "where" || unary_ops().count(op) != 0 || binary_ops().count(op) != 0;
}

Filled filled_by(const Node& node, const Filled& a, const Filled& b, const Filled& c) {
  const std::string& op = *node.op->name;
  if (op == "where") return chosen(a, b, c);
  return node.inputs.size() == 1 ? unary(node, a) : binary(op, a, b);
}

}  // namespace snug::network
