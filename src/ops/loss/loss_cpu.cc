// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the losses. Every row is computed by one thread and leaves its share of the loss,
// in double, in scratch; the shares are added in the order of the rows. Labels are checked before
// anything is written. Legend: N rows, C classes or elements of a row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/loss/loss_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <cmath>
#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// First i with x[i] == value, or n.
HWY_INLINE int64_t find_in_row(const float* x, int64_t n, float value) {
  const F32 d;
  const V32 wanted = hn::Set(d, value);
  const int64_t lanes = lanes_f32();
  int64_t i = 0;
  while (i + lanes <= n && hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), wanted))) i += lanes;
  while (i < n && x[i] != value) ++i;
  return i;
}

// log(sum(exp(z))) of one row as top + above, where top is the largest logit: the small part keeps
// its digits. The sum leaves the largest term, which is 1, out. `distances`, where wanted, is the
// sum of top - z.
void log_sum_exp_row(const float* z, int64_t n, bool wants_distances, float* top, double* above,
                     double* distances) {
  const float largest = max_row(z, n);
  const int64_t at = find_in_row(z, n, largest);
  if (at == n) {  // a NaN
    *top = std::numeric_limits<float>::quiet_NaN();
    *above = 0;
    *distances = 0;
    return;
  }
  const V32 shift = constant(largest);
  const auto term = [=](V32 v) HWY_ATTR { return exp_flushed(hn::Sub(v, shift)); };
  const double others =
      static_cast<double>(sum_row(z, at, term)) + sum_row(z + at + 1, n - at - 1, term);
  *top = largest;
  *above = std::log1p(others);
  *distances =
      wants_distances ? sum_row(z, n, [=](V32 v) HWY_ATTR { return hn::Sub(shift, v); }) : 0.0F;
}

// dz = factor (softmax - uniform - (1 - smoothing) [c = label]). dz may be z.
void cross_entropy_grad_row(const float* z, float lse, int64_t label, float factor, float uniform,
                            float smoothing, float* dz, int64_t n) {
  const V32 shift = constant(lse);
  const V32 scale = constant(factor);
  const V32 base = constant(uniform);
  float others = 0;
  const auto write = [&](int64_t begin, int64_t end) HWY_ATTR {
    others += sum_vectors(end - begin, [&](int64_t i, int64_t tail) HWY_ATTR {
      const V32 p = exp_flushed(hn::Sub(load_at(z, begin + i, tail), shift));
      store_at(hn::Mul(hn::Sub(p, base), scale), dz, begin + i, tail);
      return p;
    });
  };
  write(0, label);
  write(label + 1, n);
  dz[label] = (smoothing - uniform - others) * factor;
}

// Sum of squared differences, in double over pieces of the row.
double squared_distance_row(const float* a, const float* b, int64_t n) {
  constexpr int64_t kPiece = 4096;
  double total = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    total += sum_row(a + i, b + i, n - i < kPiece ? n - i : kPiece, [](V32 va, V32 vb) HWY_ATTR {
      const V32 difference = hn::Sub(va, vb);
      return hn::Mul(difference, difference);
    });
  }
  return total;
}

void scaled_difference_row(const float* a, const float* b, float factor, float* dst, int64_t n) {
  const V32 scale = constant(factor);
  map_vectors(dst, a, b, n,
              [=](V32 va, V32 vb) HWY_ATTR { return hn::Mul(scale, hn::Sub(va, vb)); });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "backend/cpu/kernel.h"
#include "backend/cpu/row_kernel.h"

namespace snug {
namespace {

HWY_EXPORT(log_sum_exp_row);
HWY_EXPORT(cross_entropy_grad_row);
HWY_EXPORT(squared_distance_row);
HWY_EXPORT(scaled_difference_row);

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

struct Classes {
  int64_t rows = 0;
  int64_t classes = 1;
  int64_t ignore_index = 0;
  double smoothing = 0;
  double gamma = 0;

  [[nodiscard]] bool are_valid(const int32_t* labels) const {
    bool valid = true;
    for (int64_t i = 0; i < rows; ++i) {
      valid &= labels[i] == ignore_index || (labels[i] >= 0 && labels[i] < classes);
    }
    return valid;
  }
  [[nodiscard]] bool counts(int32_t label, float weight) const {
    return label != ignore_index && weight != 0;
  }
};

Classes classes_of(const NodeSpec& spec) {
  const Shape& logits = spec.inputs[0].shape;
  return {.rows = logits[0],
          .classes = logits[1],
          .ignore_index = spec.attrs.int64("ignore_index"),
          .smoothing = spec.attrs.real("label_smoothing"),
          .gamma = spec.attrs.real("focal_gamma")};
}

// The focal loss of a row whose loss is l, (1 - exp(-l))^gamma l, and its slope.
double focal(double loss, double gamma) { return std::pow(-std::expm1(-loss), gamma) * loss; }
double focal_slope(double loss, double gamma) {
  const double wrong = -std::expm1(-loss);
  if (wrong == 0) return 0;
  return std::pow(wrong, gamma) * (1 + gamma * (1 - wrong) * loss / wrong);
}

// One double a row.
int64_t row_scratch(const NodeSpec& spec, const CpuContext&) {
  return spec.inputs[0].shape[0] * static_cast<int64_t>(sizeof(double));
}

double sum_in_order(const double* terms, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += terms[i];
  return total;
}

// Labels are read as a whole: they are checked before anything is written.
RowwiseForm classes_form(const NodeSpec& spec, const CpuContext& context) {
  const Classes c = classes_of(spec);
  return {.grid = {.rows = c.rows},
          .inputs = {c.classes * kFloatBytes, 0, kFloatBytes, 0},
          .outputs = {0, kFloatBytes},
          .scratch_bytes = row_scratch(spec, context),
          .threads = context.threads};
}
RowwiseForm classes_grad_form(const NodeSpec& spec, const CpuContext& context) {
  const Classes c = classes_of(spec);
  return {.grid = {.rows = c.rows},
          .inputs = {c.classes * kFloatBytes, 0, kFloatBytes, 0, kFloatBytes, 0},
          .outputs = {c.classes * kFloatBytes},
          .threads = context.threads};
}

auto check_labels(const Classes& c) {
  return [c](const Launch& launch) {
    return c.are_valid(input<int32_t>(launch, 1)) ? ErrorCode::ok : ErrorCode::bad_data;
  };
}

// The loss is the rows' shares in scratch, in order.
auto sum_of_rows(int64_t rows) {
  return [rows](const Launch& launch) {
    const double inv_total = *input<float>(launch, 3);
    *output<float>(launch, 0) =
        static_cast<float>(inv_total * sum_in_order(scratch_at<double>(launch), rows));
  };
}

std::unique_ptr<Kernel> create_cross_entropy(const NodeSpec& spec, const CpuContext& context) {
  const Classes c = classes_of(spec);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(log_sum_exp_row);
  const auto run_rows = [=](const RowPiece& piece) {
    const auto* z = reinterpret_cast<const float*>(piece.inputs[0]);
    const auto* labels = reinterpret_cast<const int32_t*>(piece.inputs[1]) + piece.begin;
    const auto* weights = reinterpret_cast<const float*>(piece.inputs[2]);
    auto* lse = reinterpret_cast<float*>(piece.outputs[1]);
    auto* terms = reinterpret_cast<double*>(piece.scratch) + piece.begin;
    for (int64_t row = 0; row < piece.rows(); ++row, z += c.classes) {
      float top = 0;
      double above = 0;
      double distances = 0;
      row_fn(z, c.classes, c.smoothing > 0, &top, &above, &distances);
      lse[row] = static_cast<float>(top + above);
      terms[row] = 0;
      if (!c.counts(labels[row], weights[row])) continue;
      const double at_label = (static_cast<double>(top) - z[labels[row]]) + above;
      if (c.gamma > 0) {
        terms[row] = weights[row] * focal(at_label, c.gamma);
        continue;
      }
      const double everywhere = above + distances / static_cast<double>(c.classes);
      terms[row] = weights[row] * ((1 - c.smoothing) * at_label + c.smoothing * everywhere);
    }
  };
  return make_row_kernel(classes_form(spec, context), run_rows, sum_of_rows(c.rows),
                         check_labels(c));
}

std::unique_ptr<Kernel> create_cross_entropy_grad(const NodeSpec& spec, const CpuContext& context) {
  const Classes c = classes_of(spec);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(cross_entropy_grad_row);
  const auto loss_fn = HWY_DYNAMIC_DISPATCH(log_sum_exp_row);
  const auto smoothing = static_cast<float>(c.smoothing);
  const auto uniform = static_cast<float>(c.smoothing / static_cast<double>(c.classes));
  const auto run_rows = [=](const RowPiece& piece) {
    const auto* logits = reinterpret_cast<const float*>(piece.inputs[0]);
    const auto* labels = reinterpret_cast<const int32_t*>(piece.inputs[1]) + piece.begin;
    const auto* weights = reinterpret_cast<const float*>(piece.inputs[2]);
    const auto* lse = reinterpret_cast<const float*>(piece.inputs[4]);
    const double scale = static_cast<double>(*reinterpret_cast<const float*>(piece.inputs[3])) *
                         *reinterpret_cast<const float*>(piece.inputs[5]);
    auto* dlogits = reinterpret_cast<float*>(piece.outputs[0]);
    for (int64_t row = 0; row < piece.rows(); ++row) {
      float* dz = dlogits + row * c.classes;
      if (!c.counts(labels[row], weights[row])) {
        std::fill_n(dz, c.classes, 0.0F);
        continue;
      }
      const float* z = logits + row * c.classes;
      double factor = scale * weights[row];
      if (c.gamma > 0) {  // lse has too few digits for the loss of a confident row
        float top = 0;
        double above = 0;
        double distances = 0;
        loss_fn(z, c.classes, false, &top, &above, &distances);
        factor *= focal_slope((static_cast<double>(top) - z[labels[row]]) + above, c.gamma);
      }
      row_fn(z, lse[row], labels[row], static_cast<float>(factor), uniform, smoothing, dz,
             c.classes);
    }
  };
  return make_row_kernel(classes_grad_form(spec, context), run_rows, kNothingBehind,
                         check_labels(c));
}

// (rows, elements of a row).
struct Targets {
  int64_t rows = 0;
  int64_t row_size = 0;
};

Targets targets_of(const NodeSpec& spec) {
  const int64_t rows = spec.inputs[0].shape[0];
  return {.rows = rows, .row_size = rows == 0 ? 0 : element_count(spec.inputs[0]) / rows};
}

RowwiseForm targets_form(const NodeSpec& spec, const CpuContext& context) {
  const Targets t = targets_of(spec);
  return {.grid = {.rows = t.rows},
          .inputs = {t.row_size * kFloatBytes, t.row_size * kFloatBytes, kFloatBytes, 0},
          .outputs = {0},
          .scratch_bytes = row_scratch(spec, context),
          .threads = context.threads};
}
RowwiseForm targets_grad_form(const NodeSpec& spec, const CpuContext& context) {
  const Targets t = targets_of(spec);
  const int64_t bytes = t.row_size * kFloatBytes;
  return {.grid = {.rows = bytes == 0 ? 0 : t.rows},
          .inputs = {bytes, bytes, kFloatBytes, 0, 0},
          .outputs = {bytes},
          .threads = context.threads};
}

/// The mean over a row of `sum(pred, target, n)`, weighted, summed over the rows.
template <class RowSum>
std::unique_ptr<Kernel> make_targets_loss(const NodeSpec& spec, const CpuContext& context,
                                          RowSum sum) {
  const Targets t = targets_of(spec);
  const auto run_rows = [=](const RowPiece& piece) {
    const auto* pred = reinterpret_cast<const float*>(piece.inputs[0]);
    const auto* target = reinterpret_cast<const float*>(piece.inputs[1]);
    const auto* weights = reinterpret_cast<const float*>(piece.inputs[2]);
    auto* terms = reinterpret_cast<double*>(piece.scratch) + piece.begin;
    for (int64_t row = 0; row < piece.rows(); ++row) {
      terms[row] = 0;
      if (weights[row] == 0 || t.row_size == 0) continue;
      const int64_t at = row * t.row_size;
      terms[row] =
          weights[row] * sum(pred + at, target + at, t.row_size) / static_cast<double>(t.row_size);
    }
  };
  return make_row_kernel(targets_form(spec, context), run_rows, sum_of_rows(t.rows));
}

/// `row(pred, target, factor, dpred, n)` writes factor times the slopes of its elements.
template <class Row>
std::unique_ptr<Kernel> make_targets_grad(const NodeSpec& spec, const CpuContext& context,
                                          Row row_fn) {
  const Targets t = targets_of(spec);
  return make_row_kernel(targets_grad_form(spec, context), [=](const RowPiece& piece) {
    const auto* pred = reinterpret_cast<const float*>(piece.inputs[0]);
    const auto* target = reinterpret_cast<const float*>(piece.inputs[1]);
    const auto* weights = reinterpret_cast<const float*>(piece.inputs[2]);
    auto* dpred = reinterpret_cast<float*>(piece.outputs[0]);
    const double scale = static_cast<double>(*reinterpret_cast<const float*>(piece.inputs[3])) *
                         *reinterpret_cast<const float*>(piece.inputs[4]) /
                         static_cast<double>(t.row_size);
    for (int64_t row = 0; row < piece.rows(); ++row) {
      const int64_t at = row * t.row_size;
      if (weights[row] == 0) {
        std::fill_n(dpred + at, t.row_size, 0.0F);
      } else {
        row_fn(pred + at, target + at, scale * weights[row], dpred + at, t.row_size);
      }
    }
  });
}

std::unique_ptr<Kernel> create_squared(const NodeSpec& spec, const CpuContext& context) {
  return make_targets_loss(spec, context, HWY_DYNAMIC_DISPATCH(squared_distance_row));
}

std::unique_ptr<Kernel> create_squared_grad(const NodeSpec& spec, const CpuContext& context) {
  return make_targets_grad(
      spec, context,
      [row_fn = HWY_DYNAMIC_DISPATCH(scaled_difference_row)](
          const float* pred, const float* target, double factor, float* dpred, int64_t n) {
        row_fn(pred, target, static_cast<float>(2 * factor), dpred, n);
      });
}

// Losses of few elements a row, in double: one element's loss and slope.
struct SmoothL1 {
  explicit SmoothL1(const Attrs&) {}
  static double loss(double pred, double target) {
    const double distance = std::abs(pred - target);
    return distance < 1 ? distance * distance / 2 : distance - 0.5;
  }
  static double slope(double pred, double target) { return std::clamp(pred - target, -1.0, 1.0); }
};
struct Binary {
  explicit Binary(const Attrs& attrs) : gamma(attrs.real("focal_gamma")) {}
  [[nodiscard]] double loss(double z, double target) const {
    const double plain = std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
    return gamma == 0 ? plain : std::pow(wrong(z, target), gamma) * plain;
  }
  [[nodiscard]] double slope(double z, double target) const {
    const double small = std::exp(-std::abs(z)) / (1 + std::exp(-std::abs(z)));
    const double plain = z < 0 ? small - target : (1 - target) - small;
    if (gamma == 0) return plain;
    const double far = wrong(z, target);
    if (far == 0) return 0;
    const double loss = std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
    return std::pow(far, gamma) *
           (plain + gamma * loss / far * small * (1 - small) * (1 - 2 * target));
  }
  // 1 - p of what is right.
  static double wrong(double z, double target) {
    const double large = 1 / (1 + std::exp(-std::abs(z)));
    const double small = std::exp(-std::abs(z)) * large;
    return z < 0 ? small * (1 - target) + large * target : large * (1 - target) + small * target;
  }
  double gamma;
};

template <class Element>
std::unique_ptr<Kernel> create_targets(const NodeSpec& spec, const CpuContext& context) {
  return make_targets_loss(
      spec, context,
      [element = Element(spec.attrs)](const float* pred, const float* target, int64_t n) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += element.loss(pred[i], target[i]);
        return sum;
      });
}

template <class Element>
std::unique_ptr<Kernel> create_targets_grad(const NodeSpec& spec, const CpuContext& context) {
  return make_targets_grad(spec, context,
                           [element = Element(spec.attrs)](const float* pred, const float* target,
                                                           double factor, float* dpred, int64_t n) {
                             for (int64_t i = 0; i < n; ++i)
                               dpred[i] =
                                   static_cast<float>(factor * element.slope(pred[i], target[i]));
                           });
}

}  // namespace

std::span<const CpuKernelDef> loss_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"softmax_cross_entropy", "simd:softmax_cross_entropy", "f32 i32 f32 f32 -> f32 f32", always,
       row_scratch, create_cross_entropy, "", nullptr, classes_form},
      {"softmax_cross_entropy_grad", "simd:softmax_cross_entropy_grad",
       "f32 i32 f32 f32 f32 f32 -> f32", always, no_scratch, create_cross_entropy_grad, "", nullptr,
       classes_grad_form},
      {"mean_squared_error", "simd:mean_squared_error", "f32 f32 f32 f32 -> f32", always,
       row_scratch, create_squared, "", nullptr, targets_form},
      {"mean_squared_error_grad", "simd:mean_squared_error_grad", "f32 f32 f32 f32 f32 -> f32",
       always, no_scratch, create_squared_grad, "", nullptr, targets_grad_form},
      {"smooth_l1", "plain:smooth_l1", "f32 f32 f32 f32 -> f32", always, row_scratch,
       create_targets<SmoothL1>, "", nullptr, targets_form},
      {"smooth_l1_grad", "plain:smooth_l1_grad", "f32 f32 f32 f32 f32 -> f32", always, no_scratch,
       create_targets_grad<SmoothL1>, "", nullptr, targets_grad_form},
      {"binary_cross_entropy", "plain:binary_cross_entropy", "f32 f32 f32 f32 -> f32", always,
       row_scratch, create_targets<Binary>, "", nullptr, targets_form},
      {"binary_cross_entropy_grad", "plain:binary_cross_entropy_grad", "f32 f32 f32 f32 f32 -> f32",
       always, no_scratch, create_targets_grad<Binary>, "", nullptr, targets_grad_form},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE
