// SPDX-License-Identifier: Apache-2.0
// CPU kernels of softmax, masked_softmax and softmax_grad. Along the last axis a row is contiguous;
// along another axis one vector holds neighbouring rows. Each row is computed by one thread, so
// bits do not depend on their number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/softmax_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void softmax_row(const float* x, float* y, int64_t n) {
  // Subtract the maximum: exp stays <= 1.
  const V32 largest = constant(max_row(x, n));
  const float sum = sum_vectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 e = exp_flushed(hn::Sub(load_at(x, i, count), largest));
    store_at(e, y, i, count);
    return e;
  });
  const V32 factor = constant(1.0F / sum);
  map_vectors(y, y, n, [=](V32 e) HWY_ATTR { return hn::Mul(e, factor); });
}

// mask[i * step] says whether element i takes part.
void masked_softmax_row(const float* x, const uint8_t* mask, int64_t step, float* y, int64_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  bool sees_any = false;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) {
      sees_any |= mask[i] != 0;
      y[i] = mask[i] != 0 ? x[i] : kLowest;
    }
  } else {
    sees_any = *mask != 0;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  }
  if (sees_any) {
    softmax_row(y, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = 0;
  }
}

void softmax_grad_row(const float* y, const float* dy, float* dx, int64_t n) {
  const V32 dot = constant(sum_row(y, dy, n, [](V32 a, V32 b) HWY_ATTR { return hn::Mul(a, b); }));
  map_vectors(dx, y, dy, n, [=](V32 a, V32 b) HWY_ATTR { return hn::Mul(a, hn::Sub(b, dot)); });
}

// `columns` (at most one vector) rows side by side, each of n elements that lie `stride` apart.
// count is -1 for a whole vector.
void softmax_columns(const float* x, float* y, int64_t n, int64_t stride, int64_t count) {
  V32 largest = constant(-std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < n; ++i) largest = hn::Max(largest, load_at(x, i * stride, count));
  V32 sum = constant(0.0F);
  for (int64_t i = 0; i < n; ++i) {
    const V32 e = exp_flushed(hn::Sub(load_at(x, i * stride, count), largest));
    sum = hn::Add(sum, e);
    store_at(e, y, i * stride, count);
  }
  const V32 factor = reciprocal(sum);
  for (int64_t i = 0; i < n; ++i)
    store_at(hn::Mul(load_at(y, i * stride, count), factor), y, i * stride, count);
}

void softmax_grad_columns(const float* y, const float* dy, float* dx, int64_t n, int64_t stride,
                          int64_t count) {
  V32 dot = constant(0.0F);
  for (int64_t i = 0; i < n; ++i) {
    dot = hn::MulAdd(load_at(y, i * stride, count), load_at(dy, i * stride, count), dot);
  }
  for (int64_t i = 0; i < n; ++i) {
    const V32 slope = hn::Sub(load_at(dy, i * stride, count), dot);
    store_at(hn::Mul(load_at(y, i * stride, count), slope), dx, i * stride, count);
  }
}

int64_t softmax_lanes() { return lanes_f32(); }

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/row_kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

HWY_EXPORT(softmax_row);
HWY_EXPORT(masked_softmax_row);
HWY_EXPORT(softmax_grad_row);
HWY_EXPORT(softmax_columns);
HWY_EXPORT(softmax_grad_columns);
HWY_EXPORT(softmax_lanes);

constexpr int64_t kWorthAThreadElements = 4096;

bool is_masked(const NodeSpec& spec) {
  return spec.inputs.size() > 1 && spec.inputs[1].dtype == DType::boolean;
}
int64_t axis_of(const NodeSpec& spec) { return is_masked(spec) ? -1 : spec.attrs.int64("axis"); }

// The rows along one axis: (outer, count, stride).
struct AxisRows {
  int64_t outer = 0;
  int64_t count = 0;
  int64_t stride = 1;
};

AxisRows rows_of(const NodeSpec& spec, int64_t axis) {
  const Shape& shape = spec.inputs[0].shape;
  const auto at =
      static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(shape.size()), "softmax"));
  AxisRows rows{.outer = 1, .count = shape[at], .stride = 1};
  for (size_t i = 0; i < at; ++i) rows.outer *= shape[i];
  for (size_t i = at + 1; i < shape.size(); ++i) rows.stride *= shape[i];
  return rows;
}

// Calls body(offset, count) for every group of neighbouring rows: whole vectors (count -1) and
// tails.
template <class Body>
void for_each_group(int threads, const AxisRows& rows, int64_t lanes, const Body& body) {
  if (rows.outer * rows.count * rows.stride == 0) return;
  const int64_t groups = (rows.stride + lanes - 1) / lanes;
  const int64_t grain = std::max<int64_t>(1, kWorthAThreadElements / (rows.count * lanes));
  parallel_for(threads, rows.outer * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % groups * lanes;
      body(unit / groups * rows.count * rows.stride + first,
           first + lanes <= rows.stride ? -1 : rows.stride - first);
    }
  });
}

// A row is one along the last axis; along another axis none is contiguous. A mask is read as a
// whole.
RowwiseForm row_form(const NodeSpec& spec, const CpuContext& context) {
  const AxisRows rows = rows_of(spec, axis_of(spec));
  if (rows.stride != 1) return {};
  const int64_t bytes = rows.count * element_bytes(DType::f32);
  RowwiseForm form{.grid = {.rows = bytes == 0 ? 0 : rows.outer},
                   .inputs = {bytes},
                   .outputs = {bytes},
                   .threads = context.threads};
  if (spec.inputs.size() > 1) form.inputs.push_back(is_masked(spec) ? 0 : bytes);
  return form;
}

std::unique_ptr<Kernel> create_softmax(const NodeSpec& spec, const CpuContext& context) {
  const AxisRows rows = rows_of(spec, axis_of(spec));
  if (const RowwiseForm form = row_form(spec, context); form.is_given()) {
    return make_row_kernel(
        form, [row_fn = HWY_DYNAMIC_DISPATCH(softmax_row), n = rows.count](const RowPiece& piece) {
          const auto* x = reinterpret_cast<const float*>(piece.inputs[0]);
          auto* y = reinterpret_cast<float*>(piece.outputs[0]);
          for (int64_t row = 0; row < piece.rows(); ++row) row_fn(x + row * n, y + row * n, n);
        });
  }
  const auto columns_fn = HWY_DYNAMIC_DISPATCH(softmax_columns);
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(softmax_lanes)();
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    auto* y = output<float>(launch);
    for_each_group(threads, rows, lanes, [&](int64_t offset, int64_t count) {
      columns_fn(x + offset, y + offset, rows.count, rows.stride, count);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const AxisRows rows = rows_of(spec, axis_of(spec));
  if (const RowwiseForm form = row_form(spec, context); form.is_given()) {
    return make_row_kernel(form, [row_fn = HWY_DYNAMIC_DISPATCH(softmax_grad_row),
                                  n = rows.count](const RowPiece& piece) {
      const auto* y = reinterpret_cast<const float*>(piece.inputs[0]);
      const auto* dy = reinterpret_cast<const float*>(piece.inputs[1]);
      auto* dx = reinterpret_cast<float*>(piece.outputs[0]);
      for (int64_t row = 0; row < piece.rows(); ++row)
        row_fn(y + row * n, dy + row * n, dx + row * n, n);
    });
  }
  const auto columns_fn = HWY_DYNAMIC_DISPATCH(softmax_grad_columns);
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(softmax_lanes)();
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* y = input<float>(launch, 0);
    const float* dy = input<float>(launch, 1);
    auto* dx = output<float>(launch);
    for_each_group(threads, rows, lanes, [&](int64_t offset, int64_t count) {
      columns_fn(y + offset, dy + offset, dx + offset, rows.count, rows.stride, count);
    });
    return ErrorCode::ok;
  });
}

// How a row index of x finds its row of the mask.
struct MaskRows {
  std::vector<int64_t> dims;     // of x, but the last
  std::vector<int64_t> strides;  // of the mask in them, 0 where it is broadcast
  int64_t step = 0;              // along the last axis

  [[nodiscard]] int64_t offset(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      offset += row % dims[i] * strides[i];
      row /= dims[i];
    }
    return offset;
  }
};

MaskRows mask_rows(const Shape& x, const Shape& mask) {
  MaskRows rows{.dims = {x.begin(), x.end() - 1}, .strides = std::vector<int64_t>(x.size() - 1, 0)};
  const std::vector<int64_t> own = strides_of(mask);
  const size_t shift = x.size() - mask.size();
  for (size_t i = 0; i < mask.size(); ++i) {
    const int64_t stride = mask[i] == 1 ? 0 : own[i];
    if (i + shift + 1 == x.size()) {
      rows.step = stride;
    } else {
      rows.strides[i + shift] = stride;
    }
  }
  return rows;
}

std::unique_ptr<Kernel> create_masked(const NodeSpec& spec, const CpuContext& context) {
  return make_row_kernel(
      row_form(spec, context),
      [row_fn = HWY_DYNAMIC_DISPATCH(masked_softmax_row), n = rows_of(spec, axis_of(spec)).count,
       mask_of = mask_rows(spec.inputs[0].shape, spec.inputs[1].shape)](const RowPiece& piece) {
        const auto* x = reinterpret_cast<const float*>(piece.inputs[0]);
        const auto* mask = reinterpret_cast<const uint8_t*>(piece.inputs[1]);
        auto* y = reinterpret_cast<float*>(piece.outputs[0]);
        for (int64_t row = 0; row < piece.rows(); ++row) {
          row_fn(x + row * n, mask + mask_of.offset(piece.begin + row), mask_of.step, y + row * n,
                 n);
        }
      });
}

}  // namespace

std::span<const CpuKernelDef> softmax_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"softmax", "simd:softmax", "f32 -> f32", always, no_scratch, create_softmax, "", nullptr,
       row_form},
      {"masked_softmax", "simd:masked_softmax", "f32 bool -> f32", always, no_scratch,
       create_masked, "", nullptr, row_form},
      {"softmax_grad", "simd:softmax_grad", "f32 f32 -> f32", always, no_scratch, create_grad, "",
       nullptr, row_form},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE
