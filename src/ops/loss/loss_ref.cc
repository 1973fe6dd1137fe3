// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace snug {
namespace {

// What all rows of one call share.
struct Rows {
  explicit Rows(const RefArgs& args)
      : classes(args.inputs[0].type.shape[1]),
        ignore_index(args.attrs.int64("ignore_index")),
        smoothing(args.attrs.real("label_smoothing")),
        labels(args.inputs[1].data) {}

  /// The label of a row, or -1 where it is ignored.
  [[nodiscard]] int64_t label(int64_t row) const {
    const auto label = static_cast<int64_t>(labels[row]);
    if (label == ignore_index) return -1;
    if (label < 0 || label >= classes) {
      throw Error(ErrorCode::bad_data, "softmax_cross_entropy",
                  "label " + std::to_string(label) + " of row " + std::to_string(row) +
                      " is outside the " + std::to_string(classes) + " classes");
    }
    return label;
  }

  int64_t classes;
  int64_t ignore_index;
  double smoothing;
  const double* labels;
};

double sum_exp(const double* z, int64_t classes, double shift, int64_t left_out) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += c == left_out ? 0 : std::exp(z[c] - shift);
  return sum;
}

void run_cross_entropy(const RefArgs& args) {
  const Rows rows(args);
  double total = 0;
  for (int64_t row = 0; row < args.inputs[1].size(); ++row) {
    const double* z = args.inputs[0].data + row * rows.classes;
    // log1p over the others keeps the digits of a loss close to 0.
    const int64_t top = std::max_element(z, z + rows.classes) - z;
    const double above_top = std::log1p(sum_exp(z, rows.classes, z[top], top));
    args.outputs[1].data[row] = z[top] + above_top;
    const int64_t label = rows.label(row);
    const double weight = args.inputs[2].data[row];
    if (label < 0 || weight == 0) continue;
    double over_classes = 0;
    for (int64_t c = 0; c < rows.classes; ++c) over_classes += (z[top] - z[c]) + above_top;
    total += weight * ((1 - rows.smoothing) * ((z[top] - z[label]) + above_top) +
                       rows.smoothing / static_cast<double>(rows.classes) * over_classes);
  }
  args.outputs[0].data[0] = args.inputs[3].data[0] * total;
}

void run_cross_entropy_grad(const RefArgs& args) {
  const Rows rows(args);
  const double uniform = rows.smoothing / static_cast<double>(rows.classes);
  for (int64_t row = 0; row < args.inputs[1].size(); ++row) {
    const double* z = args.inputs[0].data + row * rows.classes;
    double* dz = args.outputs[0].data + row * rows.classes;
    const double lse = args.inputs[4].data[row];
    const double weight = args.inputs[2].data[row];
    const int64_t label = rows.label(row);
    std::fill_n(dz, rows.classes, 0.0);
    if (label < 0 || weight == 0) continue;
    const double factor = args.inputs[5].data[0] * args.inputs[3].data[0] * weight;
    for (int64_t c = 0; c < rows.classes; ++c) {
      dz[c] = c == label ? rows.smoothing - uniform - sum_exp(z, rows.classes, lse, label)
                         : std::exp(z[c] - lse) - uniform;
      dz[c] *= factor;
    }
  }
}

// Of one element: the loss and its slope.
struct Squared {
  static double loss(double pred, double target) { return (pred - target) * (pred - target); }
  static double slope(double pred, double target) { return 2 * (pred - target); }
};
struct SmoothL1 {
  static double loss(double pred, double target) {
    const double distance = std::abs(pred - target);
    return distance < 1 ? distance * distance / 2 : distance - 0.5;
  }
  static double slope(double pred, double target) { return std::clamp(pred - target, -1.0, 1.0); }
};
struct Binary {
  static double loss(double z, double target) {
    return std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
  }
  static double slope(double z, double target) {
    // The smaller of sigmoid and 1 - sigmoid keeps its digits.
    const double small = std::exp(-std::abs(z)) / (1 + std::exp(-std::abs(z)));
    return z < 0 ? small - target : (1 - target) - small;
  }
};

template <class Element>
void run_targets(const RefArgs& args) {
  const int64_t rows = args.inputs[2].size();
  double total = 0;
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const int64_t row_size = args.inputs[0].size() / rows;
    const double weight = args.inputs[2].data[i / row_size];
    if (weight == 0) continue;
    total += weight * Element::loss(args.inputs[0].data[i], args.inputs[1].data[i]) /
             static_cast<double>(row_size);
  }
  args.outputs[0].data[0] = args.inputs[3].data[0] * total;
}

template <class Element>
void run_targets_grad(const RefArgs& args) {
  const int64_t rows = args.inputs[2].size();
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const int64_t row_size = args.inputs[0].size() / rows;
    const double weight = args.inputs[2].data[i / row_size];
    const double factor = args.inputs[4].data[0] * args.inputs[3].data[0] * weight;
    const double slope = Element::slope(args.inputs[0].data[i], args.inputs[1].data[i]);
    args.outputs[0].data[i] = weight == 0 ? 0 : factor * slope / static_cast<double>(row_size);
  }
}

}  // namespace

std::span<const RefKernelDef> loss_ref_kernels() {
  static const RefKernelDef kernels[] = {{"softmax_cross_entropy", run_cross_entropy},
                                         {"softmax_cross_entropy_grad", run_cross_entropy_grad},
                                         {"mean_squared_error", run_targets<Squared>},
                                         {"mean_squared_error_grad", run_targets_grad<Squared>},
                                         {"smooth_l1", run_targets<SmoothL1>},
                                         {"smooth_l1_grad", run_targets_grad<SmoothL1>},
                                         {"binary_cross_entropy", run_targets<Binary>},
                                         {"binary_cross_entropy_grad", run_targets_grad<Binary>}};
  return kernels;
}

}  // namespace snug
