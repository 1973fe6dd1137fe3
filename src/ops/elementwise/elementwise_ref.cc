// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"
#include "ops/gelu.h"
#include "ops/index_map.h"

namespace snug {
namespace {

using UnaryFn = double (*)(double);
using BinaryFn = double (*)(double, double);

template <UnaryFn kFunction>
void unary(const RefArgs& args) {
  for (int64_t i = 0; i < args.outputs[0].size(); ++i)
    args.outputs[0].data[i] = kFunction(args.inputs[0].data[i]);
}

template <BinaryFn kFunction>
void binary(const RefArgs& args) {
  const RefTensor& y = args.outputs[0];
  const std::vector<int64_t> from_a = broadcast_map(args.inputs[0].type.shape, y.type.shape);
  const std::vector<int64_t> from_b = broadcast_map(args.inputs[1].type.shape, y.type.shape);
  for (size_t i = 0; i < from_a.size(); ++i) {
    y.data[i] = kFunction(args.inputs[0].data[from_a[i]], args.inputs[1].data[from_b[i]]);
  }
}

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }
double equal(double a, double b) { return a == b ? 1 : 0; }
double not_equal(double a, double b) { return a != b ? 1 : 0; }
double less(double a, double b) { return a < b ? 1 : 0; }
double less_equal(double a, double b) { return a <= b ? 1 : 0; }
double greater(double a, double b) { return a > b ? 1 : 0; }
double greater_equal(double a, double b) { return a >= b ? 1 : 0; }

double neg(double x) { return -x; }
double exp(double x) { return std::exp(x); }
double log(double x) { return std::log(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double tanh(double x) { return std::tanh(x); }
double erf(double x) { return std::erf(x); }
double elementwise_sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double relu(double x) { return x > 0 ? x : (x == x ? 0 : x); }  // NaN stays NaN

void run_gelu(const RefArgs& args) {
  const bool is_tanh = is_tanh_gelu(args.attrs);
  for (int64_t i = 0; i < args.outputs[0].size(); ++i)
    args.outputs[0].data[i] = gelu_at(args.inputs[0].data[i], is_tanh).value;
}

void run_gelu_grad(const RefArgs& args) {
  const bool is_tanh = is_tanh_gelu(args.attrs);
  for (int64_t i = 0; i < args.outputs[0].size(); ++i) {
    const double slope = gelu_at(args.inputs[0].data[i], is_tanh).slope;
    args.outputs[0].data[i] = args.inputs[1].data[i] * slope;
  }
}

void run_relu_grad(const RefArgs& args) {
  for (int64_t i = 0; i < args.outputs[0].size(); ++i)
    args.outputs[0].data[i] = args.inputs[0].data[i] > 0 ? args.inputs[1].data[i] : 0;
}

void run_scale(const RefArgs& args) {
  const double factor = args.attrs.real("factor");
  for (int64_t i = 0; i < args.outputs[0].size(); ++i)
    args.outputs[0].data[i] = factor * args.inputs[0].data[i];
}

void run_where(const RefArgs& args) {
  const RefTensor& y = args.outputs[0];
  std::vector<int64_t> from[3];
  for (size_t i = 0; i < 3; ++i) from[i] = broadcast_map(args.inputs[i].type.shape, y.type.shape);
  for (size_t i = 0; i < from[0].size(); ++i) {
    const size_t side = args.inputs[0].data[from[0][i]] != 0 ? 1 : 2;
    y.data[i] = args.inputs[side].data[from[side][i]];
  }
}

double to_int(double x) {
  if (std::isnan(x)) return 0;
  using Limits = std::numeric_limits<int32_t>;
  return std::trunc(
      std::clamp(x, static_cast<double>(Limits::min()), static_cast<double>(Limits::max())));
}
double to_bool(double x) { return x != 0 ? 1 : 0; }
double same(double x) { return x; }

void run_cast(const RefArgs& args) {
  switch (args.outputs[0].type.dtype) {
    case DType::i32:
      return unary<to_int>(args);
    case DType::boolean:
      return unary<to_bool>(args);
    case DType::f32:
    case DType::i64:
    case DType::bf16:
    case DType::f16:
    case DType::bf16x8:
    case DType::u8:
      return unary<same>(args);
  }
}

void run_fill(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), args.attrs.real("value"));
}

}  // namespace

std::span<const RefKernelDef> elementwise_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"add", binary<add>},         {"sub", binary<sub>},
      {"mul", binary<mul>},         {"div", binary<div>},
      {"equal", binary<equal>},     {"not_equal", binary<not_equal>},
      {"less", binary<less>},       {"less_equal", binary<less_equal>},
      {"greater", binary<greater>}, {"greater_equal", binary<greater_equal>},
      {"neg", unary<neg>},          {"exp", unary<exp>},
      {"log", unary<log>},          {"sqrt", unary<sqrt>},
      {"rsqrt", unary<rsqrt>},      {"tanh", unary<tanh>},
      {"erf", unary<erf>},          {"sigmoid", unary<elementwise_sigmoid>},
      {"relu", unary<relu>},        {"gelu", run_gelu},
      {"gelu_grad", run_gelu_grad}, {"scale", run_scale},
      {"where", run_where},         {"cast", run_cast},
      {"fill", run_fill},           {"relu_grad", run_relu_grad},
  };
  return kernels;
}

}  // namespace snug
