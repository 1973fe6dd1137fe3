// SPDX-License-Identifier: Apache-2.0
// CPU kernels of batch normalisation. x is read twice: once for the statistics, once for the
// result. Rows are cut into parts whose bounds depend on the shape only, a part into blocks that
// stay in cache: a block's mean and sum of squares around its own mean are joined in double, so no
// digits are lost where the mean is far from zero, and bits do not depend on the number of threads.
// Legend: R rows, C channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/batch_norm/batch_norm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// dst[s][c] = sum over rows of terms(row, c)[s], for kVectors vectors of channels from c on. Two
// rows are in flight.
template <int kSums, int kVectors, class Terms>
HWY_INLINE void sum_vectors(int64_t rows, int64_t c, int64_t tail, float* const* dst,
                            const Terms& terms) {
  const int64_t lanes = lanes_f32();
  V32 sums[2][kVectors][kSums];
  for (auto& row : sums) {
    for (auto& vector : row) {
      for (V32& sum : vector) sum = hn::Zero(F32());
    }
  }
  const auto add_row = [&](int64_t r, V32(&row)[kVectors][kSums]) HWY_ATTR {
    for (int v = 0; v < kVectors; ++v) {
      V32 more[kSums];
      terms(r, c + v * lanes, tail, more);
      for (int s = 0; s < kSums; ++s) row[v][s] = hn::Add(row[v][s], more[s]);
    }
  };
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    add_row(r, sums[0]);
    add_row(r + 1, sums[1]);
  }
  if (r < rows) add_row(r, sums[0]);
  for (int v = 0; v < kVectors; ++v) {
    for (int s = 0; s < kSums; ++s)
      store_at(hn::Add(sums[0][v][s], sums[1][v][s]), dst[s], c + v * lanes, tail);
  }
}

// As many channels at a time as have eight sums in flight.
template <int kSums, class Terms>
HWY_INLINE void sum_columns(int64_t rows, int64_t channels, float* const* dst, const Terms& terms) {
  constexpr int kVectors = 4 / kSums;
  const int64_t lanes = lanes_f32();
  int64_t c = 0;
  for (; c + kVectors * lanes <= channels; c += kVectors * lanes)
    sum_vectors<kSums, kVectors>(rows, c, -1, dst, terms);
  for (; c < channels; c += lanes)
    sum_vectors<kSums, 1>(rows, c, c + lanes <= channels ? -1 : channels - c, dst, terms);
}

// The mean of each channel, and the sum of squares around it.
void block_moments(const float* x, int64_t rows, int64_t channels, float* mean, float* squares) {
  const int64_t lanes = lanes_f32();
  sum_columns<1>(rows, channels, &mean,
                 [=](int64_t r, int64_t c, int64_t tail, V32* more)
                     HWY_ATTR { more[0] = load_at(x + r * channels, c, tail); });
  const V32 share = hn::Set(F32(), 1.0F / static_cast<float>(rows));
  for (int64_t c = 0; c < channels; c += lanes) {
    const int64_t tail = c + lanes <= channels ? -1 : channels - c;
    store_at(hn::Mul(load_at(mean, c, tail), share), mean, c, tail);
  }
  sum_columns<1>(
      rows, channels, &squares, [=](int64_t r, int64_t c, int64_t tail, V32* more) HWY_ATTR {
        const V32 centered = hn::Sub(load_at(x + r * channels, c, tail), load_at(mean, c, tail));
        more[0] = hn::Mul(centered, centered);
      });
}

// Sums of dy and of dy (x - mean).
void block_slopes(const float* x, const float* dy, const float* mean, int64_t rows,
                  int64_t channels, float* sum, float* moment) {
  float* const sums[] = {sum, moment};
  sum_columns<2>(rows, channels, sums, [=](int64_t r, int64_t c, int64_t tail, V32* more) HWY_ATTR {
    const V32 centered = hn::Sub(load_at(x + r * channels, c, tail), load_at(mean, c, tail));
    more[0] = load_at(dy + r * channels, c, tail);
    more[1] = hn::Mul(more[0], centered);
  });
}

// y = (x - mean) * scale + beta.
void normalise_rows(const float* x, const float* mean, const float* scale, const float* beta,
                    int64_t rows, int64_t channels, float* y) {
  const int64_t lanes = lanes_f32();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < channels; c += lanes) {
      const int64_t tail = c + lanes <= channels ? -1 : channels - c;
      const V32 centered = hn::Sub(load_at(x + r * channels, c, tail), load_at(mean, c, tail));
      store_at(hn::MulAdd(centered, load_at(scale, c, tail), load_at(beta, c, tail)),
               y + r * channels, c, tail);
    }
  }
}

// dx = scale * (dy - shift - (x - mean) * slope).
void grad_rows(const float* x, const float* dy, const float* mean, const float* scale,
               const float* shift, const float* slope, int64_t rows, int64_t channels, float* dx) {
  const int64_t lanes = lanes_f32();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < channels; c += lanes) {
      const int64_t tail = c + lanes <= channels ? -1 : channels - c;
      const V32 centered = hn::Sub(load_at(x + r * channels, c, tail), load_at(mean, c, tail));
      const V32 rest = hn::Sub(load_at(dy + r * channels, c, tail), load_at(shift, c, tail));
      store_at(
          hn::Mul(load_at(scale, c, tail), hn::NegMulAdd(centered, load_at(slope, c, tail), rest)),
          dx + r * channels, c, tail);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

HWY_EXPORT(block_moments);
HWY_EXPORT(block_slopes);
HWY_EXPORT(normalise_rows);
HWY_EXPORT(grad_rows);

constexpr int64_t kBlockElements = 8192;  // 32 KiB: read a second time from the cache
constexpr int64_t kMinBlockRows = 32;
constexpr int64_t kMaxParts = 32;  // enough for many cores; their sums are small beside x
constexpr int64_t kWorthAThreadElements = 8192;

struct RowParts {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t block_rows = 1;
  int64_t part_rows = 1;  // a multiple of block_rows
  int64_t parts = 0;
};

RowParts rows_of(const NodeSpec& spec) {
  RowParts r;
  r.channels = spec.inputs[0].shape.back();
  r.rows = r.channels == 0 ? 0 : element_count(spec.inputs[0]) / r.channels;
  r.block_rows = std::max(kMinBlockRows, kBlockElements / std::max<int64_t>(r.channels, 1));
  const int64_t blocks = (r.rows + r.block_rows - 1) / r.block_rows;
  const int64_t blocks_a_part = (blocks + kMaxParts - 1) / kMaxParts;
  r.part_rows = std::max<int64_t>(1, blocks_a_part) * r.block_rows;
  r.parts = (r.rows + r.part_rows - 1) / r.part_rows;
  return r;
}

// Scratch of a reduction: two sums in double a part and channel, two of a block in float. The
// result's factors of each channel come behind.
struct Sums {
  double* first = nullptr;   // (parts, C)
  double* second = nullptr;  // (parts, C)
  float* block = nullptr;    // (parts, 2, C)
  float* factors = nullptr;  // (3, C)
};
int64_t sums_bytes(const NodeSpec& spec, const CpuContext&) {
  const RowParts r = rows_of(spec);
  return r.parts * r.channels * static_cast<int64_t>(2 * sizeof(double) + 2 * sizeof(float)) +
         3 * r.channels * static_cast<int64_t>(sizeof(float));
}
Sums sums_at(const RowParts& r, const Launch& launch) {
  Sums sums;
  sums.first = scratch_at<double>(launch);
  sums.second = sums.first + r.parts * r.channels;
  sums.block = reinterpret_cast<float*>(sums.second + r.parts * r.channels);
  sums.factors = sums.block + r.parts * 2 * r.channels;
  return sums;
}

// Calls body(part, first row, rows) for every block, the blocks of a part in order on one thread.
template <class Body>
void for_each_block(int threads, const RowParts& r, Body body) {
  parallel_for(threads, r.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t last = std::min(r.rows, (part + 1) * r.part_rows);
      for (int64_t row = part * r.part_rows; row < last; row += r.block_rows)
        body(part, row, std::min(r.block_rows, last - row));
    }
  });
}

template <class Body>
void for_row_ranges(int threads, const RowParts& r, Body body) {
  const int64_t grain =
      std::max<int64_t>(1, kWorthAThreadElements / std::max<int64_t>(r.channels, 1));
  parallel_for(threads, r.rows, grain,
               [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

// Joins means and sums of squares around them, of `more` rows, to those of `count` rows (Chan's
// formula).
struct JoinMoments {
  JoinMoments(int64_t count, int64_t more)
      : share(static_cast<double>(more) / static_cast<double>(count + more)),
        weight(static_cast<double>(count) * share) {}
  void operator()(double& mean, double& squares, double other_mean, double other_squares) const {
    const double distance = other_mean - mean;
    mean += distance * share;
    squares += other_squares + distance * distance * weight;
  }
  double share;
  double weight;
};

float scale_of(float gamma, double variance, double eps) {
  return static_cast<float>(static_cast<double>(gamma) / std::sqrt(variance + eps));
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const RowParts r = rows_of(spec);
  const double eps = spec.attrs.real("eps");
  const auto moments_fn = HWY_DYNAMIC_DISPATCH(block_moments);
  const auto normalise_fn = HWY_DYNAMIC_DISPATCH(normalise_rows);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    const float* gamma = input<float>(launch, 1);
    const float* beta = input<float>(launch, 2);
    auto* y = output<float>(launch, 0);
    auto* mean = output<float>(launch, 1);
    auto* variance = output<float>(launch, 2);
    const Sums sums = sums_at(r, launch);
    const int64_t channels = r.channels;
    for_each_block(threads, r, [&](int64_t part, int64_t row, int64_t rows) {
      float* block_mean = sums.block + part * 2 * channels;
      float* block_squares = block_mean + channels;
      moments_fn(x + row * channels, rows, channels, block_mean, block_squares);
      double* part_mean = sums.first + part * channels;
      double* part_squares = sums.second + part * channels;
      const int64_t done = row - part * r.part_rows;
      if (done == 0) std::fill_n(part_mean, channels, 0.0);
      if (done == 0) std::fill_n(part_squares, channels, 0.0);
      const JoinMoments join(done, rows);
      for (int64_t c = 0; c < channels; ++c) {
        join(part_mean[c], part_squares[c], static_cast<double>(block_mean[c]),
             static_cast<double>(block_squares[c]));
      }
    });
    // The first part's moments become those of all.
    double* all_mean = sums.first;
    double* all_squares = sums.second;
    for (int64_t part = 1; part < r.parts; ++part) {
      const int64_t first = part * r.part_rows;
      const JoinMoments join(first, std::min(r.part_rows, r.rows - first));
      for (int64_t c = 0; c < channels; ++c) {
        join(all_mean[c], all_squares[c], sums.first[part * channels + c],
             sums.second[part * channels + c]);
      }
    }
    float* scale = sums.factors;
    for (int64_t c = 0; c < channels; ++c) {
      const double spread = all_squares[c] / static_cast<double>(r.rows);
      mean[c] = static_cast<float>(all_mean[c]);
      variance[c] = static_cast<float>(spread);
      scale[c] = scale_of(gamma[c], spread, eps);
    }
    for_row_ranges(threads, r, [&](int64_t row, int64_t rows) {
      normalise_fn(x + row * channels, mean, scale, beta, rows, channels, y + row * channels);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const RowParts r = rows_of(spec);
  const double eps = spec.attrs.real("eps");
  const auto slopes_fn = HWY_DYNAMIC_DISPATCH(block_slopes);
  const auto grad_fn = HWY_DYNAMIC_DISPATCH(grad_rows);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    const float* gamma = input<float>(launch, 1);
    const float* mean = input<float>(launch, 2);
    const float* variance = input<float>(launch, 3);
    const float* dy = input<float>(launch, 4);
    auto* dx = output<float>(launch, 0);
    auto* dgamma = output<float>(launch, 1);
    auto* dbeta = output<float>(launch, 2);
    const Sums sums = sums_at(r, launch);
    const int64_t channels = r.channels;
    for_each_block(threads, r, [&](int64_t part, int64_t row, int64_t rows) {
      float* block_sum = sums.block + part * 2 * channels;
      float* block_moment = block_sum + channels;
      slopes_fn(x + row * channels, dy + row * channels, mean, rows, channels, block_sum,
                block_moment);
      double* sum = sums.first + part * channels;
      double* moment = sums.second + part * channels;
      const bool is_first = row == part * r.part_rows;
      for (int64_t c = 0; c < channels; ++c) {
        sum[c] = (is_first ? 0 : sum[c]) + static_cast<double>(block_sum[c]);
        moment[c] = (is_first ? 0 : moment[c]) + static_cast<double>(block_moment[c]);
      }
    });
    float* scale = sums.factors;
    float* shift = scale + channels;
    float* slope = shift + channels;
    const auto count = static_cast<double>(r.rows);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      double moment = 0;
      for (int64_t part = 0; part < r.parts; ++part) {
        sum += sums.first[part * channels + c];
        moment += sums.second[part * channels + c];
      }
      const double rstd = 1 / std::sqrt(static_cast<double>(variance[c]) + eps);
      dbeta[c] = static_cast<float>(sum);
      dgamma[c] = static_cast<float>(moment * rstd);
      scale[c] = static_cast<float>(static_cast<double>(gamma[c]) * rstd);
      shift[c] = static_cast<float>(sum / count);
      slope[c] = static_cast<float>(moment * rstd * rstd / count);
    }
    for_row_ranges(threads, r, [&](int64_t row, int64_t rows) {
      const int64_t at = row * channels;
      grad_fn(x + at, dy + at, mean, scale, shift, slope, rows, channels, dx + at);
    });
    return ErrorCode::ok;
  });
}

int64_t inference_scratch(const NodeSpec& spec, const CpuContext&) {
  return spec.inputs[0].shape.back() * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_inference(const NodeSpec& spec, const CpuContext& context) {
  const RowParts r = rows_of(spec);
  const double eps = spec.attrs.real("eps");
  const auto normalise_fn = HWY_DYNAMIC_DISPATCH(normalise_rows);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    const float* gamma = input<float>(launch, 1);
    const float* beta = input<float>(launch, 2);
    const float* mean = input<float>(launch, 3);
    const float* variance = input<float>(launch, 4);
    auto* y = output<float>(launch);
    auto* scale = scratch_at<float>(launch);
    for (int64_t c = 0; c < r.channels; ++c)
      scale[c] = scale_of(gamma[c], static_cast<double>(variance[c]), eps);
    for_row_ranges(threads, r, [&](int64_t row, int64_t rows) {
      normalise_fn(x + row * r.channels, mean, scale, beta, rows, r.channels, y + row * r.channels);
    });
    return ErrorCode::ok;
  });
}

// A few numbers a channel: no threads, no vectors.
std::unique_ptr<Kernel> create_running(const NodeSpec& spec, const CpuContext&) {
  const int64_t channels = spec.inputs[0].shape[0];
  const auto momentum = static_cast<float>(spec.attrs.real("momentum"));
  const auto rows = static_cast<double>(spec.attrs.int64("rows"));
  const auto unbiased = static_cast<float>(rows > 1 ? rows / (rows - 1) : 1);
  return make_kernel([=](const Launch& launch) {
    const int64_t bytes = channels * static_cast<int64_t>(sizeof(float));
    copy_overwritten(launch, 0, 0, bytes);
    copy_overwritten(launch, 1, 1, bytes);
    const float* batch_mean = input<float>(launch, 2);
    const float* batch_variance = input<float>(launch, 3);
    auto* mean = output<float>(launch, 0);
    auto* variance = output<float>(launch, 1);
    for (int64_t c = 0; c < channels; ++c) {
      mean[c] += momentum * (batch_mean[c] - mean[c]);
      variance[c] += momentum * (batch_variance[c] * unbiased - variance[c]);
    }
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> batch_norm_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"batch_norm", "simd:batch_norm", "f32 f32 f32 -> f32 f32 f32", always, sums_bytes,
       create_forward},
      {"batch_norm_grad", "simd:batch_norm_grad", "f32 f32 f32 f32 f32 -> f32 f32 f32", always,
       sums_bytes, create_grad},
      {"batch_norm_inference", "simd:batch_norm_inference", "f32 f32 f32 f32 f32 -> f32", always,
       inference_scratch, create_inference},
      {"running_statistics", "plain:running_statistics", "f32 f32 f32 f32 -> f32 f32", always,
       no_scratch, create_running},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE
