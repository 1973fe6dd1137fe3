// SPDX-License-Identifier: Apache-2.0
// Passes over the gradient: means of rows, means of columns, the size of the step, the step. Sums
// are formed in double over rows or fixed blocks, so bits do not depend on threads.
#include <algorithm>
#include <cmath>

#include "ops/optimizer/step_cpu.h"

namespace snug {
namespace {

constexpr int64_t kColumns = 256;  // of one task
constexpr int64_t kBlock = 8192;   // elements of a vector in one task

struct Attributes {
  double eps, threshold, decay;
  explicit Attributes(const NodeSpec& spec)
      : eps(spec.attrs.real("eps")),
        threshold(spec.attrs.real("clip_threshold")),
        decay(spec.attrs.real("weight_decay")) {}
};

// What is subtracted from a weight: w * keep - u * step.
struct Subtraction {
  float keep, step;
};
Subtraction step_of(const Attributes& attributes, const StepOperands& operands, double squares,
                    int64_t count) {
  const double rms = std::sqrt(squares / static_cast<double>(count));
  const auto rate = static_cast<double>(operands.hyper[0]);
  return {.keep = static_cast<float>(1 - rate * attributes.decay),
          .step = static_cast<float>(rate / std::max(1.0, rms / attributes.threshold))};
}

// The state with the mean of g^2 + eps joined.
float joined(const StepOperands& operands, double old, double mean) {
  const auto share = static_cast<double>(operands.hyper[1]);
  return static_cast<float>((1 - share) * old + share * mean);
}

// Scratch: a double for each row, then the factors of rows and columns as floats.
class MatrixStep {
 public:
  MatrixStep(const NodeSpec& spec, int threads)
      : attributes_(spec),
        rows_(spec.inputs[0].shape[spec.inputs[0].shape.size() - 2]),
        columns_(spec.inputs[0].shape.back()),
        all_rows_(element_count(spec.inputs[2])),
        all_columns_(element_count(spec.inputs[3])),
        threads_(threads),
        storage_(spec) {}

  [[nodiscard]] int64_t scratch_bytes() const {
    return all_rows_ * static_cast<int64_t>(sizeof(double)) +
           (all_rows_ + all_columns_) * static_cast<int64_t>(sizeof(float));
  }

  void operator()(const StepOperands& operands, const Launch& launch) const {
    if (all_rows_ * columns_ == 0) return;
    auto* const sums = scratch_at<double>(launch);
    auto* const row_factor =
        scratch_at<float>(launch, all_rows_ * static_cast<int64_t>(sizeof(double)));
    float* const column_factor = row_factor + all_rows_;
    const auto scale = static_cast<double>(operands.gradient_scale);
    // Its power of two goes to the columns' factors: the gradient of a scaled loss times a factor
    // without it would overflow.
    int exponent = 0;
    const float fraction = std::frexp(operands.gradient_scale, &exponent);
    join_rows(operands, scale * scale);
    join_columns(operands, scale * scale, std::ldexp(1.0F, exponent), column_factor);
    form_row_factors(operands, row_factor);
    const int64_t grain = std::max<int64_t>(1, kStepGrain / columns_);
    parallel_for(threads_, all_rows_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* const g = operands.src[1] + r * columns_;
        const float* const factors = column_factor + r / rows_ * columns_;
        double sum = 0;
        for (int64_t c = 0; c < columns_; ++c) {
          const auto u = static_cast<double>(g[c] * factors[c]);
          sum += u * u;
        }
        const double row = static_cast<double>(fraction) * static_cast<double>(row_factor[r]);
        sums[r] = sum * row * row;
      }
    });
    double squares = 0;
    for (int64_t r = 0; r < all_rows_; ++r) squares += sums[r];
    const Subtraction by = step_of(attributes_, operands, squares, all_rows_ * columns_);
    parallel_for(threads_, all_rows_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float row = row_factor[r] * fraction * by.step;
        for (int64_t first = 0; first < columns_; first += kStateBlock) {
          const int64_t width = std::min(kStateBlock, columns_ - first);
          const float* const g = operands.src[1] + r * columns_ + first;
          const float* const factors = column_factor + r / rows_ * columns_ + first;
          storage_.for_weights(launch, r * columns_ + first, width,
                               [&](const float* w, float* dst) {
                                 for (int64_t c = 0; c < width; ++c)
                                   dst[c] = w[c] * by.keep - g[c] * factors[c] * row;
                               });
        }
      }
    });
  }

 private:
  void join_rows(const StepOperands& operands, double scale) const {
    const int64_t grain = std::max<int64_t>(1, kStepGrain / columns_);
    parallel_for(threads_, all_rows_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* const g = operands.src[1] + r * columns_;
        double sum = 0;
        for (int64_t c = 0; c < columns_; ++c)
          sum += static_cast<double>(g[c]) * static_cast<double>(g[c]);
        const double mean = scale * sum / static_cast<double>(columns_) + attributes_.eps;
        operands.dst[1][r] = joined(operands, static_cast<double>(operands.src[2][r]), mean);
      }
    });
  }

  // Also power / sqrt(col).
  void join_columns(const StepOperands& operands, double scale, float power, float* factor) const {
    const int64_t chunks = (columns_ + kColumns - 1) / kColumns;
    parallel_for(threads_, all_rows_ / rows_ * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t matrix = task / chunks;
        const int64_t first = task % chunks * kColumns;
        const int64_t width = std::min(kColumns, columns_ - first);
        double sums[kColumns] = {};
        for (int64_t r = 0; r < rows_; ++r) {
          const float* const g = operands.src[1] + (matrix * rows_ + r) * columns_ + first;
          for (int64_t c = 0; c < width; ++c)
            sums[c] += static_cast<double>(g[c]) * static_cast<double>(g[c]);
        }
        for (int64_t c = 0; c < width; ++c) {
          const int64_t at = matrix * columns_ + first + c;
          const double mean = scale * sums[c] / static_cast<double>(rows_) + attributes_.eps;
          operands.dst[2][at] = joined(operands, static_cast<double>(operands.src[3][at]), mean);
          const auto root =
              static_cast<float>(1 / std::sqrt(static_cast<double>(operands.dst[2][at])));
          factor[at] = root * power;
        }
      }
    });
  }

  // 1 / sqrt(row / mean of the rows)
  void form_row_factors(const StepOperands& operands, float* factor) const {
    for (int64_t matrix = 0; matrix < all_rows_ / rows_; ++matrix) {
      const float* const row = operands.dst[1] + matrix * rows_;
      double sum = 0;
      for (int64_t r = 0; r < rows_; ++r) sum += static_cast<double>(row[r]);
      const double mean = sum / static_cast<double>(rows_);
      for (int64_t r = 0; r < rows_; ++r)
        factor[matrix * rows_ + r] =
            static_cast<float>(std::sqrt(mean / static_cast<double>(row[r])));
    }
  }

  Attributes attributes_;
  int64_t rows_, columns_, all_rows_, all_columns_;
  int threads_;
  StepStorage storage_;
};

int64_t matrix_scratch(const NodeSpec& spec, const CpuContext& context) {
  return MatrixStep(spec, context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create_matrix(const NodeSpec& spec, const CpuContext& context) {
  return make_step_kernel(spec, MatrixStep(spec, context.threads));
}

int64_t blocks_of(int64_t count) { return (count + kBlock - 1) / kBlock; }
int64_t vector_scratch(const NodeSpec& spec, const CpuContext&) {
  return blocks_of(element_count(spec.inputs[0])) * static_cast<int64_t>(sizeof(double));
}

std::unique_ptr<Kernel> create_vector(const NodeSpec& spec, const CpuContext& context) {
  return make_step_kernel(
      spec, [attributes = Attributes(spec), count = element_count(spec.inputs[0]),
             threads = context.threads,
             storage = StepStorage(spec)](const StepOperands& operands, const Launch& launch) {
        if (count == 0) return;
        auto* const sums = scratch_at<double>(launch);
        const auto scale = static_cast<double>(operands.gradient_scale);
        const auto update_at = [&](int64_t i) {
          return scale * static_cast<double>(operands.src[1][i]) /
                 std::sqrt(static_cast<double>(operands.dst[1][i]));
        };
        parallel_for(threads, blocks_of(count), 1, [&](int64_t begin, int64_t end) {
          for (int64_t block = begin; block < end; ++block) {
            sums[block] = 0;
            for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
              const double g = scale * static_cast<double>(operands.src[1][i]);
              operands.dst[1][i] =
                  joined(operands, static_cast<double>(operands.src[2][i]), g * g + attributes.eps);
              sums[block] += update_at(i) * update_at(i);
            }
          }
        });
        double squares = 0;
        for (int64_t block = 0; block < blocks_of(count); ++block) squares += sums[block];
        const Subtraction by = step_of(attributes, operands, squares, count);
        parallel_for(threads, count, kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; at += kStateBlock) {
            const int64_t n = std::min(kStateBlock, end - at);
            storage.for_weights(launch, at, n, [&](const float* w, float* dst) {
              for (int64_t i = 0; i < n; ++i)
                dst[i] = w[i] * by.keep - static_cast<float>(update_at(at + i)) * by.step;
            });
          }
        });
      });
}

}  // namespace

std::span<const CpuKernelDef> adafactor_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"adafactor", "plain:adafactor", "weight f32 f32 f32 i64 f32 f32 i32 -> weight f32 f32",
       always, matrix_scratch, create_matrix},
      {"adafactor_vector", "plain:adafactor_vector", "weight f32 f32 i64 f32 f32 i32 -> weight f32",
       always, vector_scratch, create_vector},
  };
  return kernels;
}

}  // namespace snug
