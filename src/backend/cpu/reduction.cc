// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/reduction.h"

#include <algorithm>
#include <limits>

#include "base/half.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduction.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Sum of a row: four accumulators over 2,048 elements in float, those sums in double.
template <class T>
HWY_INLINE double row_sum(const T* src, int64_t count) {
  const F32 d;
  const int64_t step = lanes_f32();
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += 2048) {
    const T* block = src + begin;
    const int64_t n = HWY_MIN(count - begin, int64_t{2048});
    auto a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
      a0 = hn::Add(a0, load_at(block, i, -1));
      a1 = hn::Add(a1, load_at(block, i + step, -1));
      a2 = hn::Add(a2, load_at(block, i + 2 * step, -1));
      a3 = hn::Add(a3, load_at(block, i + 3 * step, -1));
    }
    for (; i + step <= n; i += step) a0 = hn::Add(a0, load_at(block, i, -1));
    if (i < n) a1 = hn::Add(a1, load_at(block, i, n - i));
    total += static_cast<double>(
        hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)))));
  }
  return total;
}

// group[j] += sum over rows of src[row, j], eight rows as a tree.
template <class T>
HWY_INLINE void add_rows(const T* src, int64_t stride, int64_t rows, int64_t cols, float* group) {
  const F32 d;
  const int64_t step = lanes_f32();
  int64_t r = 0;
  for (; r + kRowsOfTree <= rows; r += kRowsOfTree) {
    const T* p = src + r * stride;
    int64_t j = 0;
    for (; j + step <= cols; j += step) {
      const auto row = [&](int64_t i) HWY_ATTR { return load_at(p, i * stride + j, -1); };
      const auto s01 = hn::Add(row(0), row(1));
      const auto s23 = hn::Add(row(2), row(3));
      const auto s45 = hn::Add(row(4), row(5));
      const auto s67 = hn::Add(row(6), row(7));
      const auto sum = hn::Add(hn::Add(s01, s23), hn::Add(s45, s67));
      hn::StoreU(hn::Add(hn::LoadU(d, group + j), sum), d, group + j);
    }
    for (; j < cols; ++j) {
      float sum = 0;
      for (int64_t i = 0; i < kRowsOfTree; ++i) sum += to_f32(p[i * stride + j]);
      group[j] += sum;
    }
  }
  for (; r < rows; ++r) {
    for (int64_t j = 0; j < cols; ++j) group[j] += to_f32(src[r * stride + j]);
  }
}

// dst[j] = sum over rows of src[row, j] for at most 512 columns: a group of rows in float, groups
// in double.
template <class T>
HWY_INLINE void column_sums(const T* src, int64_t stride, int64_t rows, int64_t cols, double* dst) {
  HWY_ALIGN float group[512];
  for (int64_t j = 0; j < cols; ++j) dst[j] = 0;
  for (int64_t begin = 0; begin < rows; begin += kRowsOfGroup) {
    for (int64_t j = 0; j < cols; ++j) group[j] = 0;
    add_rows(src + begin * stride, stride, HWY_MIN(kRowsOfGroup, rows - begin), cols, group);
    for (int64_t j = 0; j < cols; ++j) dst[j] += static_cast<double>(group[j]);
  }
}

#define SNUG_SUMS(T, name)                                                                         \
  double row_sum_##name(const T* src, int64_t count) { return row_sum(src, count); }               \
  void column_sums_##name(const T* src, int64_t stride, int64_t rows, int64_t cols, double* dst) { \
    column_sums(src, stride, rows, cols, dst);                                                     \
  }                                                                                                \
  void add_rows_##name(const T* src, int64_t rows, int64_t cols, float* group) {                   \
    add_rows(src, cols, rows, cols, group);                                                        \
  }
SNUG_SUMS(float, f32)
SNUG_SUMS(Bf16, bf16)
SNUG_SUMS(F16, f16)
#undef SNUG_SUMS

double block_squares(const float* src, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    const auto x0 = hn::PromoteTo(d, hn::LoadU(half, src + i));
    const auto x1 = hn::PromoteTo(d, hn::LoadU(half, src + i + step));
    const auto x2 = hn::PromoteTo(d, hn::LoadU(half, src + i + 2 * step));
    const auto x3 = hn::PromoteTo(d, hn::LoadU(half, src + i + 3 * step));
    a0 = hn::MulAdd(x0, x0, a0);
    a1 = hn::MulAdd(x1, x1, a1);
    a2 = hn::MulAdd(x2, x2, a2);
    a3 = hn::MulAdd(x3, x3, a3);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3))));
  for (; i < count; ++i) total += static_cast<double>(src[i]) * static_cast<double>(src[i]);
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(row_sum_f32);
HWY_EXPORT(row_sum_bf16);
HWY_EXPORT(row_sum_f16);
HWY_EXPORT(column_sums_f32);
HWY_EXPORT(column_sums_bf16);
HWY_EXPORT(column_sums_f16);
HWY_EXPORT(add_rows_f32);
HWY_EXPORT(add_rows_bf16);
HWY_EXPORT(add_rows_f16);
HWY_EXPORT(block_squares);

namespace {

/// The sums of a type of storage, chosen for this processor.
template <class T>
struct Sums;
template <>
struct Sums<float> {
  static auto rows() { return HWY_DYNAMIC_DISPATCH(row_sum_f32); }
  static auto columns() { return HWY_DYNAMIC_DISPATCH(column_sums_f32); }
  static auto added_rows() { return HWY_DYNAMIC_DISPATCH(add_rows_f32); }
};
template <>
struct Sums<Bf16> {
  static auto rows() { return HWY_DYNAMIC_DISPATCH(row_sum_bf16); }
  static auto columns() { return HWY_DYNAMIC_DISPATCH(column_sums_bf16); }
  static auto added_rows() { return HWY_DYNAMIC_DISPATCH(add_rows_bf16); }
};
template <>
struct Sums<F16> {
  static auto rows() { return HWY_DYNAMIC_DISPATCH(row_sum_f16); }
  static auto columns() { return HWY_DYNAMIC_DISPATCH(column_sums_f16); }
  static auto added_rows() { return HWY_DYNAMIC_DISPATCH(add_rows_f16); }
};

constexpr int64_t kRowSegment = 65536;   // elements of a long row that one task sums
constexpr int64_t kColumns = 512;        // columns of one task; column_sums' limit
constexpr int64_t kRowsOfPart = 512;     // rows of one task where there are few columns
constexpr int64_t kWorthAThread = 8192;  // elements below which a second thread does not pay

int64_t segments_of(const Reduction& plan) {
  return (plan.reduced + kRowSegment - 1) / kRowSegment;
}
int64_t column_chunks(const Reduction& plan) { return (plan.inner + kColumns - 1) / kColumns; }
// Parts that the reduced rows are cut into, so that narrow matrices have work for several threads
// too.
int64_t row_parts(const Reduction& plan) {
  if (plan.outer * column_chunks(plan) >= 16) return 1;
  return std::clamp<int64_t>(plan.reduced / kRowsOfPart, 1, 16);
}
int64_t grain_of(int64_t elements_of_item) {
  return std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(1, elements_of_item));
}

// Offset in src of the i-th combination of the dimensions whose kind is `reduced`.
int64_t general_offset(const Reduction& plan, int64_t i, bool reduced) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (size_t dim = plan.dims.size(); dim-- > 0;) {
    if (plan.is_reduced[dim] == reduced) {
      offset += i % plan.dims[dim] * stride;
      i /= plan.dims[dim];
    }
    stride *= plan.dims[dim];
  }
  return offset;
}

template <class T>
void sum_rows(int threads, const Reduction& plan, const T* src, float* dst, double scale,
              double* partial) {
  const auto sum = Sums<T>::rows();
  const int64_t segments = segments_of(plan);
  if (segments <= 1) {
    parallel_for(threads, plan.outer, grain_of(plan.reduced), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        dst[row] = static_cast<float>(scale * sum(src + row * plan.reduced, plan.reduced));
      }
    });
    return;
  }
  parallel_for(threads, plan.outer * segments, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t start = item % segments * kRowSegment;
      partial[item] = sum(src + item / segments * plan.reduced + start,
                          std::min(kRowSegment, plan.reduced - start));
    }
  });
  for (int64_t row = 0; row < plan.outer; ++row) {
    double total = 0;
    for (int64_t i = 0; i < segments; ++i) total += partial[row * segments + i];
    dst[row] = static_cast<float>(scale * total);
  }
}

template <class T>
void sum_columns(int threads, const Reduction& plan, const T* src, float* dst, double scale,
                 double* partial) {
  const auto sum = Sums<T>::columns();
  const int64_t chunks = column_chunks(plan);
  const int64_t parts = row_parts(plan);
  parallel_for(threads, plan.outer * parts * chunks,
               grain_of(plan.reduced / parts * std::min(plan.inner, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t column = item % chunks * kColumns;
                   const int64_t part = item / chunks % parts;
                   const int64_t outer = item / chunks / parts;
                   const int64_t first_row = plan.reduced * part / parts;
                   const int64_t rows = plan.reduced * (part + 1) / parts - first_row;
                   const int64_t cols = std::min(kColumns, plan.inner - column);
                   double sums[kColumns];
                   sum(src + (outer * plan.reduced + first_row) * plan.inner + column, plan.inner,
                       rows, cols, sums);
                   if (parts == 1) {
                     float* line = dst + outer * plan.inner + column;
                     for (int64_t j = 0; j < cols; ++j)
                       line[j] = static_cast<float>(scale * sums[j]);
                   } else {
                     std::copy_n(sums, cols,
                                 partial + (outer * parts + part) * plan.inner + column);
                   }
                 }
               });
  if (parts == 1) return;
  for (int64_t outer = 0; outer < plan.outer; ++outer) {
    for (int64_t j = 0; j < plan.inner; ++j) {
      double total = 0;
      for (int64_t part = 0; part < parts; ++part)
        total += partial[(outer * parts + part) * plan.inner + j];
      dst[outer * plan.inner + j] = static_cast<float>(scale * total);
    }
  }
}

// join(accumulator, element) over the reduced elements of each output, in row-major order.
template <class T, class Join, class Finish>
void reduce_general(int threads, const Reduction& plan, const T* src, double start, Join join,
                    Finish finish) {
  parallel_for(threads, plan.outputs, grain_of(plan.reduced), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = src + general_offset(plan, i, false);
      double accumulator = start;
      for (int64_t k = 0; k < plan.reduced; ++k) {
        accumulator =
            join(accumulator, static_cast<double>(to_f32(from[general_offset(plan, k, true)])));
      }
      finish(i, accumulator);
    }
  });
}

}  // namespace

Reduction plan_reduction(const Shape& shape, const std::vector<bool>& reduced) {
  Reduction plan;
  int64_t elements = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    elements *= shape[dim];
    if (!reduced[dim]) plan.outputs *= shape[dim];
    if (shape[dim] == 1) continue;
    if (!plan.dims.empty() && plan.is_reduced.back() == reduced[dim]) {
      plan.dims.back() *= shape[dim];
    } else {
      plan.dims.push_back(shape[dim]);
      plan.is_reduced.push_back(reduced[dim]);
    }
  }
  // (reduced), (kept, reduced), (reduced, kept), (kept, reduced, kept); all else is general.
  size_t next = 0;
  const size_t count = plan.dims.size();
  if (next < count && !plan.is_reduced[next]) plan.outer = plan.dims[next++];
  if (next < count) plan.reduced = plan.dims[next++];
  if (next < count) plan.inner = plan.dims[next++];
  plan.is_general = next < count;
  if (plan.is_general) plan.reduced = plan.outputs == 0 ? 0 : elements / plan.outputs;
  return plan;
}

int64_t reduction_scratch_bytes(const Reduction& plan) {
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  if (plan.is_general) return 0;
  if (plan.inner == 1) return segments_of(plan) > 1 ? plan.outer * segments_of(plan) * kDouble : 0;
  return row_parts(plan) > 1 ? plan.outer * row_parts(plan) * plan.inner * kDouble : 0;
}

namespace {

template <class T>
void sum_of(int threads, const Reduction& plan, const T* src, float* dst, double scale,
            std::byte* scratch) {
  if (plan.outputs == 0) return;
  auto* partial = reinterpret_cast<double*>(scratch);
  if (plan.is_general) {
    reduce_general(
        threads, plan, src, 0.0, [](double a, double b) { return a + b; },
        [&](int64_t i, double sum) { dst[i] = static_cast<float>(scale * sum); });
  } else if (plan.inner == 1) {
    sum_rows(threads, plan, src, dst, scale, partial);
  } else {
    sum_columns(threads, plan, src, dst, scale, partial);
  }
}

}  // namespace

void reduce_sum(int threads, const Reduction& plan, DType dtype, const std::byte* src, float* dst,
                double scale, std::byte* scratch) noexcept {
  if (dtype == DType::bf16) {
    sum_of(threads, plan, reinterpret_cast<const Bf16*>(src), dst, scale, scratch);
  } else if (dtype == DType::f16) {
    sum_of(threads, plan, reinterpret_cast<const F16*>(src), dst, scale, scratch);
  } else {
    sum_of(threads, plan, reinterpret_cast<const float*>(src), dst, scale, scratch);
  }
}

bool is_summed_by_rows(const Reduction& plan) {
  if (plan.is_general || plan.outer != 1 || plan.inner == 1 || plan.outputs == 0) return false;
  const int64_t parts = row_parts(plan);
  return plan.reduced > 0 && (parts == 1 || plan.reduced % (parts * kRowsOfGroup) == 0);
}

int64_t row_groups(const Reduction& plan) {
  return (plan.reduced + kRowsOfGroup - 1) / kRowsOfGroup;
}

namespace {

template <class T>
void add_rows_of(const Reduction& plan, const T* src, int64_t first, int64_t rows, float* groups) {
  const auto add = Sums<T>::added_rows();
  for (int64_t row = first; row < first + rows;) {
    float* group = groups + row / kRowsOfGroup * plan.inner;
    if (row % kRowsOfGroup == 0) std::fill_n(group, plan.inner, 0.0F);
    const int64_t count = std::min(first + rows, (row / kRowsOfGroup + 1) * kRowsOfGroup) - row;
    add(src + (row - first) * plan.inner, count, plan.inner, group);
    row += count;
  }
}

}  // namespace

void add_rows(const Reduction& plan, DType dtype, const std::byte* src, int64_t first, int64_t rows,
              float* groups) noexcept {
  if (dtype == DType::bf16) {
    add_rows_of(plan, reinterpret_cast<const Bf16*>(src), first, rows, groups);
  } else if (dtype == DType::f16) {
    add_rows_of(plan, reinterpret_cast<const F16*>(src), first, rows, groups);
  } else {
    add_rows_of(plan, reinterpret_cast<const float*>(src), first, rows, groups);
  }
}

void sum_groups(int threads, const Reduction& plan, const float* groups, float* dst,
                double scale) noexcept {
  const int64_t parts = row_parts(plan);
  const int64_t count = row_groups(plan);
  parallel_for(threads, plan.inner, grain_of(count), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      double total = 0;
      for (int64_t part = 0; part < parts; ++part) {
        double sum = 0;
        for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
          sum += static_cast<double>(groups[i * plan.inner + j]);
        total = parts == 1 ? sum : total + sum;
      }
      dst[j] = static_cast<float>(scale * total);
    }
  });
}

void reduce_max_f32(int threads, const Reduction& plan, const float* src, float* dst) noexcept {
  reduce_general(
      threads, plan, src, -std::numeric_limits<double>::infinity(),
      [](double a, double b) { return b > a || b != b ? b : a; },
      [&](int64_t i, double maximum) { dst[i] = static_cast<float>(maximum); });
}

double sum_squares_f32(int threads, const float* src, int64_t count, double* scratch) noexcept {
  const auto squares = HWY_DYNAMIC_DISPATCH(block_squares);
  const int64_t blocks = (count + kSquaresBlock - 1) / kSquaresBlock;
  parallel_for(threads, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t start = block * kSquaresBlock;
      scratch[block] = squares(src + start, std::min(kSquaresBlock, count - start));
    }
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += scratch[block];
  return total;
}

}  // namespace snug
#endif
