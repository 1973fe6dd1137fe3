// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "base/index_vector.h"
#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

// w -= lr (decay w + u / max(1, rms(u) / threshold))
void move_weights(const RefArgs& args, const std::vector<double>& update) {
  double sum = 0;
  for (const double u : update) sum += u * u;
  const double rms = update.empty() ? 0 : std::sqrt(sum / static_cast<double>(update.size()));
  const double divisor = std::max(1.0, rms / args.attrs.real("clip_threshold"));
  const double rate = hyper_of(args)[0];
  for (size_t i = 0; i < update.size(); ++i) {
    const double w = args.inputs[0].data[i];
    args.outputs[0].data[i] =
        w - rate * args.attrs.real("weight_decay") * w - rate * update[i] / divisor;
  }
}

// After the step: the mean of g^2 + eps joins the old value of a state.
void join(const RefArgs& args, size_t state, int64_t at, double mean) {
  const double share = hyper_of(args)[1];
  args.outputs[state].data[at] = (1 - share) * args.inputs[state + 1].data[at] + share * mean;
}

void run_adafactor(const RefArgs& args) {
  const Shape& shape = args.inputs[0].type.shape;
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape.back();
  const int64_t count = args.inputs[0].size();
  const double eps = args.attrs.real("eps");
  const auto g = [&](int64_t i) { return args.inputs[1].data[i] * coefficient_of(args); };
  IndexVector<double> update(count);
  for (int64_t matrix = 0; count > 0 && matrix < count / (rows * columns); ++matrix) {
    const int64_t begin = matrix * rows * columns;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::pow(g(begin + r * columns + c), 2) + eps;
      join(args, 1, matrix * rows + r, sum / static_cast<double>(columns));
    }
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += std::pow(g(begin + r * columns + c), 2) + eps;
      join(args, 2, matrix * columns + c, sum / static_cast<double>(rows));
    }
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r)
      mean += args.outputs[1].data[matrix * rows + r] / static_cast<double>(rows);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const double row = args.outputs[1].data[matrix * rows + i / columns] / mean;
      const double column = args.outputs[2].data[matrix * columns + i % columns];
      update[begin + i] = g(begin + i) / std::sqrt(row) / std::sqrt(column);
    }
  }
  move_weights(args, update);
}

void run_adafactor_vector(const RefArgs& args) {
  IndexVector<double> update(args.inputs[0].size());
  for (size_t i = 0; i < update.size(); ++i) {
    const double g = args.inputs[1].data[i] * coefficient_of(args);
    join(args, 1, static_cast<int64_t>(i), g * g + args.attrs.real("eps"));
    update[i] = g / std::sqrt(args.outputs[1].data[i]);
  }
  move_weights(args, update);
}

}  // namespace

std::span<const RefKernelDef> adafactor_ref_kernels() {
  static const RefKernelDef kernels[] = {{"adafactor", run_or_skip<run_adafactor>},
                                         {"adafactor_vector", run_or_skip<run_adafactor_vector>}};
  return kernels;
}

}  // namespace snug
