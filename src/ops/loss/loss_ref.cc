// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace snug {
namespace {

// What all rows of one call share.
struct LossRows {
  explicit LossRows(const RefArgs& args)
      : classes(args.inputs[0].type.shape[1]),
        ignore_index(args.attrs.int64("ignore_index")),
        smoothing(args.attrs.real("label_smoothing")),
        gamma(args.attrs.real("focal_gamma")),
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
  double gamma;
  const double* labels;
};

// The focal loss of a row whose loss is l, (1 - exp(-l))^gamma l, and its slope.
double focal(double loss, double gamma) {
  return gamma == 0 ? loss : std::pow(-std::expm1(-loss), gamma) * loss;
}
double focal_slope(double loss, double gamma) {
  if (gamma == 0) return 1;
  const double wrong = -std::expm1(-loss);
  if (wrong == 0) return 0;
  return std::pow(wrong, gamma) * (1 + gamma * (1 - wrong) * loss / wrong);
}

double sum_exp(const double* z, int64_t classes, double shift, int64_t left_out) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += c == left_out ? 0 : std::exp(z[c] - shift);
  return sum;
}

void run_cross_entropy(const RefArgs& args) {
  const LossRows rows(args);
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
    if (rows.gamma > 0) {
      total += weight * focal((z[top] - z[label]) + above_top, rows.gamma);
      continue;
    }
    double over_classes = 0;
    for (int64_t c = 0; c < rows.classes; ++c) over_classes += (z[top] - z[c]) + above_top;
    total += weight * ((1 - rows.smoothing) * ((z[top] - z[label]) + above_top) +
                       rows.smoothing / static_cast<double>(rows.classes) * over_classes);
  }
  args.outputs[0].data[0] = args.inputs[3].data[0] * total;
}

void run_cross_entropy_grad(const RefArgs& args) {
  const LossRows rows(args);
  const double uniform = rows.smoothing / static_cast<double>(rows.classes);
  for (int64_t row = 0; row < args.inputs[1].size(); ++row) {
    const double* z = args.inputs[0].data + row * rows.classes;
    double* dz = args.outputs[0].data + row * rows.classes;
    const double lse = args.inputs[4].data[row];
    const double weight = args.inputs[2].data[row];
    const int64_t label = rows.label(row);
    std::fill_n(dz, rows.classes, 0.0);
    if (label < 0 || weight == 0) continue;
    const double factor =
        args.inputs[5].data[0] * args.inputs[3].data[0] * weight *
        (rows.gamma == 0
             ? 1
             : focal_slope(std::log1p(sum_exp(z, rows.classes, z[label], label)), rows.gamma));
    for (int64_t c = 0; c < rows.classes; ++c) {
      dz[c] = c == label ? rows.smoothing - uniform - sum_exp(z, rows.classes, lse, label)
                         : std::exp(z[c] - lse) - uniform;
      dz[c] *= factor;
    }
  }
}

// The squared error of one element, and its slope.
struct Squared {
  explicit Squared(const RefArgs&) {}
  static double loss(double pred, double target) { return (pred - target) * (pred - target); }
  static double slope(double pred, double target) { return 2 * (pred - target); }
};
struct SmoothL1 {
  explicit SmoothL1(const RefArgs&) {}
  static double loss(double pred, double target) {
    const double distance = std::abs(pred - target);
    return distance < 1 ? distance * distance / 2 : distance - 0.5;
  }
  static double slope(double pred, double target) { return std::clamp(pred - target, -1.0, 1.0); }
};
struct Binary {
  explicit Binary(const RefArgs& args) : gamma(args.attrs.real("focal_gamma")) {}
  [[nodiscard]] double loss(double z, double target) const {
    const double plain = std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
    return gamma == 0 ? plain : std::pow(wrong(z, target), gamma) * plain;
  }
  [[nodiscard]] double slope(double z, double target) const {
    // The smaller of sigmoid and 1 - sigmoid keeps its digits.
    const double small = std::exp(-std::abs(z)) / (1 + std::exp(-std::abs(z)));
    const double plain = z < 0 ? small - target : (1 - target) - small;
    const double far = wrong(z, target);
    if (gamma == 0) return plain;
    if (far == 0) return 0;
    const double loss = std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
    const double far_slope = small * (1 - small) * (1 - 2 * target);
    return std::pow(far, gamma) * (plain + gamma * loss / far * far_slope);
  }
  // 1 - p of what is right.
  static double wrong(double z, double target) {
    const double small = std::exp(-std::abs(z)) / (1 + std::exp(-std::abs(z)));
    const double large = 1 / (1 + std::exp(-std::abs(z)));
    return z < 0 ? small * (1 - target) + large * target : large * (1 - target) + small * target;
  }
  double gamma;
};

template <class Element>
void run_targets(const RefArgs& args) {
  const int64_t rows = args.inputs[2].size();
  const Element element(args);
  double total = 0;
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const int64_t row_size = args.inputs[0].size() / rows;
    const double weight = args.inputs[2].data[i / row_size];
    if (weight == 0) continue;
    total += weight * element.loss(args.inputs[0].data[i], args.inputs[1].data[i]) /
             static_cast<double>(row_size);
  }
  args.outputs[0].data[0] = args.inputs[3].data[0] * total;
}

template <class Element>
void run_targets_grad(const RefArgs& args) {
  const int64_t rows = args.inputs[2].size();
  const Element element(args);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const int64_t row_size = args.inputs[0].size() / rows;
    const double weight = args.inputs[2].data[i / row_size];
    const double factor = args.inputs[4].data[0] * args.inputs[3].data[0] * weight;
    const double slope = element.slope(args.inputs[0].data[i], args.inputs[1].data[i]);
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
